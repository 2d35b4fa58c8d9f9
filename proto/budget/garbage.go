package budget

import "time"

// garbageShare: the memory of requests that were given up is collected once it is one part of
// so many of the budget.
const garbageShare = 16

// waitsForGarbage is how many collections a request waits for at most.
const waitsForGarbage = 8

// garbage is memory of requests that were given up, which the garbage collector has not freed
// yet.
type garbage struct {
	collect func()
	held    map[*account]int64
	total   int64
	running bool
	freed   chan struct{} // closed when a collection has ended
}

// NewCapped returns a Budget for a process whose memory is capped. What was given up holds its
// bytes until collect has returned, which frees them: a caller whose requests are given up
// faster than the garbage collector runs would otherwise end the process.
func NewCapped(bytes int64, collect func()) *Budget {
	b := New(bytes)
	b.garbage = &garbage{collect: collect, held: map[*account]int64{}, freed: make(chan struct{})}
	return b
}

// awaitGarbage waits while garbage is collected, until do has what it needs. It calls do with
// b.mu held, and reports whether do could.
func (b *Budget) awaitGarbage(do func() bool) bool {
	if b.garbage == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for range waitsForGarbage {
		if do() {
			return true
		}
		if !b.garbage.running {
			return false
		}
		freed := b.garbage.freed
		b.mu.Unlock()
		<-freed
		b.mu.Lock()
	}
	return do()
}

// drop has so many bytes of the caller's count until they are collected. b.mu is held.
func (b *Budget) drop(caller *account, bytes int64) {
	g := b.garbage
	g.held[caller] += bytes
	g.total += bytes
	if !g.running && g.total >= b.total.most/garbageShare {
		g.running = true
		go b.collect()
	}
}

// collect goes on while there is much garbage. It leaves others half of the time.
func (b *Budget) collect() {
	for again := true; again; {
		b.mu.Lock()
		dropped := b.garbage.held
		b.garbage.held, b.garbage.total = map[*account]int64{}, 0
		b.mu.Unlock()
		began := time.Now()
		b.garbage.collect()
		rest := time.NewTimer(time.Since(began))
		again = b.free(dropped)
		<-rest.C
	}
}

// free gives the bytes back, and reports whether there is much garbage again.
func (b *Budget) free(dropped map[*account]int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for caller, bytes := range dropped {
		for _, a := range [...]*account{caller, &b.total} {
			a.held -= bytes
			a.dying -= bytes
		}
	}
	close(b.garbage.freed)
	b.garbage.freed = make(chan struct{})
	b.garbage.running = b.garbage.total >= b.total.most/garbageShare
	return b.garbage.running
}
