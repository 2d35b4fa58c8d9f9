package fanout

import (
	"sync"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// logReader is one who reads along.
type logReader struct {
	of   script.Name
	wake chan struct{} // has one when there is something to take

	mu      sync.Mutex
	queue   []fleet.Logs
	bytes   int
	dropped uint64 // lines that the queue had no room for
}

// hear queues those of the lines that r reads. Where an agent does not say whose lines
// it left out, they were perhaps r's, if others of its lines are.
func (r *logReader) hear(logs *heard) {
	mine := fleet.Logs{Agent: logs.Agent, Dropped: logs.droppedFor(r.of)}
	bytes := 0
	for i := range logs.Lines {
		line := &logs.Lines[i]
		if line.Script == r.of || r.of.Script == "" && line.Script.Tenant == r.of.Tenant {
			mine.Lines = append(mine.Lines, *line)
			bytes += len(line.Message) + lineOverhead
		}
	}
	isSure := logs.droppedOf != nil && logs.unreadable == 0
	if len(mine.Lines) == 0 && (mine.Dropped == 0 || !isSure && len(logs.Lines) > 0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+bytes > maxQueuedBytes {
		r.dropped += uint64(len(mine.Lines)) + mine.Dropped
	} else {
		r.queue, r.bytes = append(r.queue, mine), r.bytes+bytes+lineOverhead
	}
	r.signal()
}

// drop counts lines that nobody has read.
func (r *logReader) drop(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += n
	r.signal()
}

// tell queues a state. Of one interruption after the other, r need not know each.
func (r *logReader) tell(listening bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := fleet.LogsInterrupted
	if listening {
		state = fleet.LogsListening
	}
	n := len(r.queue)
	if !listening && n >= 2 && r.queue[n-1].State == fleet.LogsListening && r.queue[n-2].State == fleet.LogsInterrupted {
		r.queue = r.queue[:n-1]
		return
	}
	r.queue = append(r.queue, fleet.Logs{State: state})
	r.signal()
}

func (r *logReader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns what has come since.
func (r *logReader) take() []fleet.Logs {
	r.mu.Lock()
	defer r.mu.Unlock()
	queue := r.queue
	if r.dropped > 0 { // they came after what is queued
		queue = append(queue, fleet.Logs{Dropped: r.dropped})
	}
	r.queue, r.bytes, r.dropped = nil, 0, 0
	return queue
}
