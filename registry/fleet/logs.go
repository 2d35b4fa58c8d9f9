package fleet

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Logs is what a reader of the fleet's script logs gets: either a state of the reading,
// or lines.
type Logs struct {
	// State, if not empty, is what has become of the reading; the rest is empty then.
	State LogsState
	// Agent that the lines are of; "" where lines were left out that were not read in
	// time, of whichever agents.
	Agent string
	Lines []LogLine // in order
	// Dropped counts the lines that were left out before these.
	Dropped uint64
}

// LogsState is what has become of the reading.
type LogsState string

// The states.
const (
	// LogsListening: the agents have been asked for lines.
	LogsListening LogsState = "listening"
	// LogsInterrupted: NATS is gone, and lines are missing until it is back.
	LogsInterrupted LogsState = "interrupted"
)

// LogLine is a line that a script has logged. What strangers wrote in it is within
// bounds: Message is valid UTF-8 that holds no control characters but newlines and
// tabs.
type LogLine struct {
	Time    time.Time
	Script  script.Name
	Version uint64
	Level   engine.Level
	Message string
	TraceID string // 32 hexadecimal digits, or ""
}
