package natswire

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// Odds are the probabilities of what happens to a message, each from 0 to 1. At
// most one of them happens to a message.
type Odds struct {
	Drop    float64
	Double  float64
	Delay   float64 // by up to Late
	Reorder float64 // the message comes after the one that follows it
	Late    time.Duration
}

func (o Odds) String() string {
	return fmt.Sprintf("drop %.0f%%, double %.0f%%, delay %.0f%% by up to %v, reorder %.0f%%",
		100*o.Drop, 100*o.Double, 100*o.Delay, o.Late, 100*o.Reorder)
}

// Mangler forwards what NATS servers send, and breaks the messages in it. It is safe for concurrent use.
type Mangler struct {
	mu     sync.Mutex
	random *rand.Rand
	odds   Odds
}

// NewMangler returns one that breaks nothing until Set; what it breaks then
// follows from the seed and the order of the messages.
func NewMangler(seed uint64) *Mangler {
	return &Mangler{random: rand.New(rand.NewPCG(seed, 1))}
}

// Set changes the odds; the zero Odds break nothing.
func (m *Mangler) Set(o Odds) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.odds = o
}

type fate int

const (
	pass fate = iota
	drop
	double
	delay
	reorder
)

// decide returns what happens to the next message.
func (m *Mangler) decide() (fate, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.odds == (Odds{}) {
		return pass, 0
	}
	x := m.random.Float64()
	for _, choice := range []struct {
		odds float64
		fate fate
	}{{m.odds.Drop, drop}, {m.odds.Double, double}, {m.odds.Delay, delay}, {m.odds.Reorder, reorder}} {
		if x -= choice.odds; x < 0 {
			return choice.fate, time.Duration(m.random.Int64N(max(1, int64(m.odds.Late))))
		}
	}
	return pass, 0
}

// maxHeld is how long a message that is to come after the next one waits for it.
const maxHeld = 500 * time.Millisecond

// Pump forwards a server's frames until one of the two ends. It has the form that
// netfault.Config.ToClient wants.
func (m *Mangler) Pump(client io.Writer, server io.Reader) error {
	out := &orderly{to: client}
	defer out.stop()
	r := bufio.NewReaderSize(server, 16<<10)
	for {
		f, err := ReadFrame(r)
		if err != nil {
			return err
		}
		kind, late := pass, time.Duration(0)
		if f.Message() {
			kind, late = m.decide()
		}
		switch kind {
		case drop:
		case double:
			err = out.write(append(f.Raw, f.Raw...))
		case delay:
			time.AfterFunc(late, func() { _ = out.write(f.Raw) })
		case reorder:
			out.hold(f.Raw)
		case pass:
			err = out.write(f.Raw)
		}
		if err != nil {
			return err
		}
	}
}

// orderly writes whole frames from several goroutines.
type orderly struct {
	mu      sync.Mutex
	to      io.Writer
	held    []byte
	stopped bool
}

// write writes the frame, and after it the one that is held.
func (o *orderly) write(frame []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stopped {
		return io.ErrClosedPipe
	}
	frame = append(frame, o.held...)
	o.held = nil
	_, err := o.to.Write(frame)
	return err
}

// hold keeps the frame until another is written, or for maxHeld.
func (o *orderly) hold(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, frame...)
	time.AfterFunc(maxHeld, func() { _ = o.write(nil) })
}

func (o *orderly) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
}
