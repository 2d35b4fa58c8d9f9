package lua

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// watchInterval is how often the watchdog looks: the resolution of
	// timeouts and of a caller's cancellation.
	watchInterval = 5 * time.Millisecond
	// watchLinger is how long the watchdog stays without calls before its
	// goroutine ends, so that steady traffic does not start one a call.
	watchLinger = 20 * watchInterval
	// lookEvery is how often garbage is collected at most to see whose calls have grown the
	// heap, while they are nobody's.
	lookEvery = time.Second
)

// watchdog stops calls whose time is up, whose caller gave up, or that grow the
// heap too much. One goroutine serves all calls of an engine; it exists while
// calls are armed and for watchLinger after. A call that was disarmed is never
// stopped by a late firing: both happen under mu.
type watchdog struct {
	heap   heapGauge
	spared atomic.Uint64 // looks that found nobody to stop

	guarding  atomic.Bool // guards what follows, of the goroutine that looks at the heap
	live      heapGauge
	lookAgain time.Time

	mu      sync.Mutex
	calls   []*meter
	running bool
}

// arm has m stopped at its timeout or when ctx ends, whichever is first.
func (w *watchdog) arm(ctx context.Context, m *meter) {
	deadline := m.started.Add(m.limits.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.ctx, m.deadline, m.heapBase = ctx, deadline, 0
	m.slot = len(w.calls)
	w.calls = append(w.calls, m)
	if !w.running {
		w.running = true
		go w.watch()
	}
}

// disarm ends what arm began. m may be used for another call afterwards.
func (w *watchdog) disarm(m *meter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.calls) - 1
	moved := w.calls[last]
	w.calls[m.slot], moved.slot = moved, m.slot
	w.calls[last] = nil
	w.calls = w.calls[:last]
	m.ctx = nil
}

func (w *watchdog) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	idleSince := time.Now()
	for now := range ticker.C {
		heap := w.heap.read()
		w.mu.Lock()
		if len(w.calls) > 0 {
			idleSince = now
		} else if now.Sub(idleSince) >= watchLinger {
			w.running = false
			w.mu.Unlock()
			return
		}
		grown := w.stopLateCalls(now, heap)
		w.mu.Unlock()
		if grown {
			w.guard(now, w.live.readLive)
		}
	}
}

// guard is guardHeap in a goroutine of its own, unless it is at that: a collection takes long if
// the heap is large, and the time of calls is up meanwhile, too.
func (w *watchdog) guard(now time.Time, live func() uint64) {
	if !w.guarding.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer w.guarding.Store(false)
		w.guardHeap(now, live)
	}()
}

// stopLateCalls stops what is over its time, and reports whether the heap grew
// suspiciously under a call that is still running.
func (w *watchdog) stopLateCalls(now time.Time, heap uint64) (grown bool) {
	for _, m := range w.calls {
		switch {
		case m.ctx.Err() == context.Canceled:
			m.halt(cancelled)
		case !now.Before(m.deadline):
			m.halt(outOfTime)
		case m.heapBase == 0:
			m.heapBase = heap
		case heap > m.heapBase+heapGrowth:
			grown = true
		}
	}
	return grown
}

// guardHeap stops calls under which the heap has grown by more than heapGrowth, not counting
// garbage: all calls of the tenant whose calls have allocated the most. When they are over
// and the heap is still too large, it is the next tenant's turn. What no call has allocated,
// such as what callers send, stops none. live collects garbage and returns the heap's size.
func (w *watchdog) guardHeap(now time.Time, live func() uint64) {
	if now.Before(w.lookAgain) {
		return
	}
	w.mu.Lock()
	made, stopping := w.made()
	w.mu.Unlock()
	if stopping { // and their memory is not free yet
		return
	}
	// Less than that explains no growth that is too large.
	if made > heapGrowth/2 && w.stopGrower(live()) {
		return
	}
	w.spared.Add(1)
	w.lookAgain = now.Add(lookEvery)
}

// made returns what the calls of all tenants have allocated, and whether some of them are
// being stopped for it. w.mu is held.
func (w *watchdog) made() (bytes uint64, stopping bool) {
	seen := map[*account]bool{}
	for _, m := range w.calls {
		stopping = stopping || m.Stop.Load() == uint32(outOfMemory)
		if a := m.account.Load(); a != nil && !seen[a] {
			seen[a] = true
			bytes += uint64(a.bytes.Load())
		}
	}
	return bytes, stopping
}

// stopGrower reports whether it has stopped somebody. Whose calls began after the heap had grown
// may be the one.
func (w *watchdog) stopGrower(live uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	made, _ := w.made()
	var most *account
	grown := false
	for _, m := range w.calls {
		grown = grown || m.heapBase != 0 && explains(made, m.heapBase, live)
		if a := m.account.Load(); a != nil && (most == nil || a.bytes.Load() > most.bytes.Load()) {
			most = a
		}
	}
	if !grown || most == nil {
		return false
	}
	for _, m := range w.calls {
		if m.account.Load() == most {
			m.halt(outOfMemory)
		}
	}
	return true
}

// explains reports whether the heap has grown too much, and what calls have made is why: at
// least half of it, or too much by itself.
func explains(made, before, now uint64) bool {
	return now > before+heapGrowth && (2*made >= now-before || made > heapGrowth)
}

// heapGrowth is by how much the process's heap may grow while one call runs.
const heapGrowth = 256 << 20

// heapGauge reads the size of the process's heap.
type heapGauge struct {
	sample [1]metrics.Sample
}

// read returns the bytes of objects on the heap, garbage not yet swept included.
func (g *heapGauge) read() uint64 {
	g.sample[0].Name = "/memory/classes/heap/objects:bytes"
	metrics.Read(g.sample[:])
	return g.sample[0].Value.Uint64()
}

// readLive collects garbage first, and is slow for that.
func (g *heapGauge) readLive() uint64 {
	runtime.GC()
	return g.read()
}
