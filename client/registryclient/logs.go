package registryclient

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Logs is what WatchLogs yields: either what has become of the watch, or lines of one
// agent.
type Logs struct {
	// State, if not empty, is what has become of the watch; the rest is empty then.
	State LogsState
	// Agent that the lines are of; "" where the registry left out lines, of whichever
	// agents, that were not read in time.
	Agent string
	Lines []LogLine // in order
	// Dropped counts the lines that were left out before these: by the agent, since
	// scripts logged too many, or by the registry.
	Dropped uint64
}

// LogsState is what has become of a watch.
type LogsState string

// The states.
const (
	// LogsListening: the agents have been asked for lines.
	LogsListening LogsState = "listening"
	// LogsInterrupted: the registry has lost the agents; lines are missing until it
	// listens again.
	LogsInterrupted LogsState = "interrupted"
)

// LogLine is a line that a script has logged.
type LogLine struct {
	Time    time.Time
	Script  script.Name
	Version uint64
	Level   engine.Level
	Message string // valid UTF-8 without control characters but newlines and tabs
	TraceID string // of the call, 32 hexadecimal digits; "" when it had none
}

// WatchLogs yields what scripts log on the fleet from now on: the script, or all of a
// tenant for a name without Script. The first that it yields is a state. It goes on
// until ctx is done, the caller breaks off, or an error (yielded last) ends it:
// Unavailable when the registry goes away, and Timeout, with the context's cause, when
// ctx is done. Only ctx bounds it. Lines are neither stored nor sent again: they come
// as they are logged, or not at all.
func (c *Client) WatchLogs(ctx context.Context, selected script.Name) iter.Seq2[Logs, error] {
	return func(yield func(Logs, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.registry.WatchLogs(ctx, &registryv1.WatchLogsRequest{Tenant: selected.Tenant, Name: selected.Script})
		if err != nil {
			yield(Logs{}, c.fault(ctx, err))
			return
		}
		for {
			resp, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				yield(Logs{}, script.Errorf(script.Unavailable, "", "the registry at %s ended the stream: it may be restarting", c.target))
				return
			}
			if err != nil {
				yield(Logs{}, c.fault(ctx, err))
				return
			}
			if !yield(toLogs(resp), nil) {
				return
			}
		}
	}
}

func toLogs(m *registryv1.WatchLogsResponse) Logs {
	switch m.GetState() {
	case registryv1.LogsState_LOGS_STATE_LISTENING:
		return Logs{State: LogsListening}
	case registryv1.LogsState_LOGS_STATE_INTERRUPTED:
		return Logs{State: LogsInterrupted}
	}
	logs := Logs{Agent: m.GetLogs().GetAgent(), Dropped: m.GetLogs().GetDropped()}
	for _, line := range m.GetLogs().GetLines() {
		logs.Lines = append(logs.Lines, toLogLine(line))
	}
	return logs
}

func toLogLine(m *eventv1.LogLine) LogLine {
	return LogLine{
		Time:    m.GetTime().AsTime(),
		Script:  script.Name{Tenant: m.GetTenant(), Script: m.GetName()},
		Version: m.GetVersion(),
		Level:   engine.Level(m.GetLevel()),
		Message: m.GetMessage(),
		TraceID: m.GetTraceId(),
	}
}
