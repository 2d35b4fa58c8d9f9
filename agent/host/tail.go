package host

import (
	"context"
	"strings"
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
	maxTailsOf   = 16 // of them, of one tenant
	maxTailLasts = time.Minute
	batchDelay   = 100 * time.Millisecond
	maxBatch     = 64 << 10  // bytes of a message
	maxQueue     = 256 << 10 // bytes that wait
	lineBytes    = 128       // of a line besides its text
	maxDropped   = 256       // scripts whose dropped lines the agent reports one by one
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
	fleet   string               // that all of it is for
	wanted  map[tailOf]time.Time // until when
	queue   []line
	bytes   int
	dropped map[tailOf]uint64 // lines that no message has reported yet, by script
	wake    chan struct{}
}

func (t *tails) init() {
	t.start = time.Now()
	t.wanted, t.dropped = make(map[tailOf]time.Time), make(map[tailOf]uint64)
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
	if t.fleet != fleet { // the agent follows another one now
		clear(t.wanted)
		clear(t.dropped)
		t.fleet, t.queue, t.bytes = fleet, nil, 0
	}
	of := tailOf{tenant, name}
	if _, known := t.wanted[of]; !known && !t.hasRoom(now, tenant) {
		return
	}
	if !until.After(t.wanted[of]) {
		return
	}
	t.wanted[of] = until
	t.until.Store(max(t.until.Load(), int64(until.Sub(t.start))))
}

// hasRoom reports whether one more of the tenant's may be read along, once those that
// have ended are forgotten. One tenant cannot take all the room.
func (t *tails) hasRoom(now time.Time, tenant string) bool {
	same := 0
	for of, ends := range t.wanted {
		switch {
		case !now.Before(ends):
			delete(t.wanted, of)
		case of.tenant == tenant:
			same++
		}
	}
	return len(t.wanted) < maxTails && same < maxTailsOf
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
		t.lose(l.tenant, l.name, 1)
		return
	}
	t.queue = append(t.queue, l)
	t.bytes += size
	t.signal()
}

// signal wakes Run. t.mu is held.
func (t *tails) signal() {
	if len(t.queue)+len(t.dropped) != 1 { // it was woken for the first
		return
	}
	select {
	case t.wake <- struct{}{}:
	default: // it was not taken yet
	}
}

// drop counts a line that somebody would have read.
func (t *tails) drop(now time.Time, tenant, name string) {
	if !t.wants(now, tenant, name) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lose(tenant, name, 1)
}

// lose counts lines of a script that are lost. t.mu is held.
func (t *tails) lose(tenant, name string, lines uint64) {
	of := tailOf{tenant, name}
	if t.dropped[of] == 0 {
		if len(t.dropped) >= maxDropped {
			of.name = "" // of one of the tenant's
		}
		of = tailOf{strings.Clone(of.tenant), strings.Clone(of.name)}
	}
	t.dropped[of] += lines
	t.signal()
}

// unsent takes back a batch that could not be sent.
func (t *tails) unsent(b *batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range b.lines {
		t.lose(l.tenant, l.name, 1)
	}
	for of, lines := range b.dropped {
		t.lose(of.tenant, of.name, lines)
	}
}

// batch is what goes into one message.
type batch struct {
	fleet   string
	lines   []line
	dropped map[tailOf]uint64 // before the lines
}

func (b *batch) isEmpty() bool { return len(b.lines) == 0 && len(b.dropped) == 0 }

// take takes what fits into one message.
func (t *tails) take() *batch {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &batch{fleet: t.fleet, dropped: t.dropped}
	t.dropped = make(map[tailOf]uint64)
	n, bytes, queued := 0, len(b.dropped)*lineBytes, 0
	for n < len(t.queue) {
		size := len(t.queue[n].message) + lineBytes
		if bytes+size > maxBatch {
			break
		}
		bytes, queued = bytes+size, queued+size
		n++
	}
	b.lines = t.queue[:n:n]
	t.queue = t.queue[n:]
	if len(t.queue) == 0 {
		t.queue = nil
	}
	t.bytes -= queued
	return b
}

// Run sends lines to those who read along and says in the log what was left out of it,
// until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	forget := time.NewTicker(forgetEvery)
	defer forget.Stop()
	due := time.NewTimer(batchDelay)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			h.sendAll()
			h.sayDropped()
			return nil
		case <-second.C:
			h.sayDropped()
			h.sendAll() // what could not be sent before
		case now := <-forget.C:
			h.forget(now)
		case <-h.tails.wake: // more may follow
			due.Reset(batchDelay)
		case <-due.C:
			h.sendAll()
		}
	}
}

// sendAll sends what waits. What it cannot send counts as dropped; the next message
// reports it.
func (h *Host) sendAll() {
	for {
		b := h.tails.take()
		if b.isEmpty() {
			return
		}
		err := h.send(b)
		if err == nil {
			continue
		}
		h.metrics.unsent.Add(float64(len(b.lines)))
		h.tails.unsent(b)
		h.log.Debug("lines could not be sent to those who read along", "lines", len(b.lines), "error", err)
		return
	}
}

func (h *Host) send(b *batch) error {
	if h.cfg.Send == nil {
		return nil
	}
	m := &eventv1.Logs{Fleet: b.fleet, Agent: h.cfg.Agent, Lines: make([]*eventv1.LogLine, len(b.lines))}
	for i, l := range b.lines {
		m.Lines[i] = &eventv1.LogLine{
			Time: timestamppb.New(l.time), Tenant: l.tenant, Name: l.name, Version: l.version,
			Level: string(l.level), Message: l.message, TraceId: l.traceID,
		}
	}
	for of, lines := range b.dropped {
		m.Dropped += lines
		m.DroppedOf = append(m.DroppedOf, &eventv1.Dropped{Tenant: of.tenant, Name: of.name, Count: lines})
	}
	return h.cfg.Send(m)
}
