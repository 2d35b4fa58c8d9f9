// Package netfault puts TCP proxies between processes and breaks what runs
// through them: it cuts connections, swallows bytes, delays and throttles.
package netfault

import (
	"fmt"
	"time"
)

// Mode is what a link does to its connections.
type Mode int

// The modes.
const (
	// Pass hands everything on.
	Pass Mode = iota
	// Cut resets every connection, and each new one.
	Cut
	// Blackhole accepts connections and forwards nothing. Once the link heals,
	// what was sent meanwhile arrives, as after a partition.
	Blackhole
	// Mute forwards what clients send and loses what servers answer; connections that
	// lost something are reset once the link heals.
	Mute
	// Delay forwards everything late.
	Delay
	// Throttle forwards so many bytes a second.
	Throttle
)

func (m Mode) String() string {
	switch m {
	case Pass:
		return "pass"
	case Cut:
		return "cut"
	case Blackhole:
		return "blackhole"
	case Mute:
		return "mute"
	case Delay:
		return "delay"
	case Throttle:
		return "throttle"
	}
	return fmt.Sprintf("mode %d", int(m))
}

// Fault is a mode with its measures. The zero Fault passes everything.
type Fault struct {
	Mode           Mode
	Late           time.Duration // of Delay
	BytesPerSecond int           // of Throttle
}

func (f Fault) String() string {
	switch f.Mode {
	case Delay:
		return fmt.Sprintf("delay by %v", f.Late)
	case Throttle:
		return fmt.Sprintf("throttle to %d B/s", f.BytesPerSecond)
	default:
		return f.Mode.String()
	}
}
