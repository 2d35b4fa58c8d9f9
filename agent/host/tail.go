package host

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// Bounds of what is sent to those who read along.
const (
	maxTails     = 256
	maxTailLasts = time.Minute
	batchDelay   = 100 * time.Millisecond
	maxBatch     = 64 << 10  // bytes of a message
	maxQueue     = 256 << 10 // bytes that wait
	lineBytes    = 128       // of a line besides its text
)

// line is a line that waits to be sent.
type line struct {
	time         time.Time
	tenant, name string
	version      uint64
	level        engine.Level
	message      string
	traceID      string
}

// tailOf says whose lines are wanted: all of a tenant's if name is empty.
type tailOf struct{ tenant, name string }

// tails are what is read along.
type tails struct {
	start time.Time
	until atomic.Int64 // after start: when the last of them ends

	mu      sync.Mutex
	fleet   string               // of who asked last
	wanted  map[tailOf]time.Time // until when
	queue   []line
	bytes   int
	dropped uint64
	wake    chan struct{}
}

func (t *tails) init() {
	t.start = time.Now()
	t.wanted = make(map[tailOf]time.Time)
	t.wake = make(chan struct{}, 1)
}

// Tail has the lines of the script, or of all the tenant's if name is empty, sent to the
// fleet until then, but no longer than a minute. Whoever reads along asks again in time.
func (h *Host) Tail(fleet, tenant, name string, until time.Time) {
	t := &h.tails
	now := time.Now()
	if latest := now.Add(maxTailLasts); until.After(latest) {
		until = latest
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := tailOf{tenant, name}
	if _, known := t.wanted[of]; !known && len(t.wanted) >= maxTails {
		for other, ends := range t.wanted {
			if !now.Before(ends) {
				delete(t.wanted, other)
			}
		}
		if len(t.wanted) >= maxTails {
			return
		}
	}
	if !until.After(t.wanted[of]) {
		return
	}
	t.fleet, t.wanted[of] = fleet, until
	t.until.Store(max(t.until.Load(), int64(until.Sub(t.start))))
}

// wants reports whether somebody reads along.
func (t *tails) wants(now time.Time, tenant, name string) bool {
	if int64(now.Sub(t.start)) >= t.until.Load() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.wanted[tailOf{tenant, name}]) || now.Before(t.wanted[tailOf{tenant, ""}])
}

// put queues a line; if too many wait it is dropped.
func (t *tails) put(l line) {
	size := len(l.message) + lineBytes
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes+size > maxQueue {
		t.dropped++
		return
	}
	t.queue = append(t.queue, l)
	t.bytes += size
	if len(t.queue) == 1 {
		select {
		case t.wake <- struct{}{}:
		default: // it was not taken yet
		}
	}
}

// drop counts a line that somebody would have read.
func (t *tails) drop(now time.Time, tenant, name string) {
	if t.wants(now, tenant, name) {
		t.lost(1)
	}
}

func (t *tails) lost(lines int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped += uint64(lines)
}

// batch takes what fits into one message, and how many lines were dropped before.
func (t *tails) batch() (lines []line, fleet string, dropped uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, bytes := 0, 0
	for n < len(t.queue) {
		size := len(t.queue[n].message) + lineBytes
		if bytes+size > maxBatch {
			break
		}
		bytes += size
		n++
	}
	if n == 0 {
		return nil, "", 0
	}
	lines = t.queue[:n:n]
	t.queue = t.queue[n:]
	if len(t.queue) == 0 {
		t.queue = nil
	}
	t.bytes -= bytes
	dropped, t.dropped = t.dropped, 0
	return lines, t.fleet, dropped
}

// Run sends lines to those who read along and says in the log what was left out of it,
// until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	batch := time.NewTimer(batchDelay)
	defer batch.Stop()
	for {
		select {
		case <-ctx.Done():
			h.sendAll()
			h.sayDropped()
			return nil
		case <-second.C:
			h.sayDropped()
		case now := <-forget.C:
			h.forget(now)
		case <-h.tails.wake: // more may follow
			batch.Reset(batchDelay)
		case <-batch.C:
			h.sendAll()
		}
	}
}

// sendAll sends what waits.
func (h *Host) sendAll() {
	for {
		lines, fleet, dropped := h.tails.batch()
		if len(lines) == 0 {
			return
		}
		err := h.send(lines, fleet, dropped)
		if err == nil {
			continue
		}
		h.metrics.unsent.Add(float64(len(lines)))
		h.tails.lost(len(lines) + int(dropped))
		h.log.Debug("lines could not be sent to those who read along", "lines", len(lines), "error", err)
	}
}

func (h *Host) send(lines []line, fleet string, dropped uint64) error {
	if h.cfg.Send == nil {
		return nil
	}
	m := &eventv1.Logs{Fleet: fleet, Agent: h.cfg.Agent, Dropped: dropped, Lines: make([]*eventv1.LogLine, len(lines))}
	for i, l := range lines {
		m.Lines[i] = &eventv1.LogLine{
			Time: timestamppb.New(l.time), Tenant: l.tenant, Name: l.name, Version: l.version,
			Level: string(l.level), Message: l.message, TraceId: l.traceID,
		}
	}
	return h.cfg.Send(m)
}
