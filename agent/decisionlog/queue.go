package decisionlog

import (
	"sync"
	"sync/atomic"
)

// record is one record on its way to the sinks.
type record struct {
	line   []byte
	tenant string
	refs   atomic.Int32 // queues that have it
}

// Sizes of a record in memory, in bytes.
const (
	recordOverhead = 128 // without its line
	usualLine      = 1 << 10
	keptLine       = 4 << 10 // largest line that the pool keeps
)

var records = sync.Pool{New: func() any { return new(record) }}

func newRecord(tenant string) *record {
	r := records.Get().(*record)
	if r.tenant = tenant; r.line == nil {
		r.line = make([]byte, 0, usualLine)
	}
	r.line = r.line[:0]
	r.refs.Store(1)
	return r
}

func (r *record) size() int64 { return int64(cap(r.line) + recordOverhead) }

// release drops one reference. After the last one, the record goes back to the pool.
func (r *record) release() {
	if r.refs.Add(-1) > 0 || cap(r.line) > keptLine {
		return
	}
	records.Put(r)
}

// queue holds the records for one sink. A tenant may hold at most as many bytes as stay free. So there is always room
// for one more tenant.
type queue struct {
	most  int64
	ready chan struct{} // has an element when the queue was empty and is not any more
	full  chan struct{} // has an element when the queue has a whole batch

	mu       sync.Mutex
	waiting  []*record
	head     int // of waiting
	held     int64
	byTenant map[string]int64
	closed   bool
}

// batchBytes is the approximate size of a batch.
const batchBytes = 256 << 10

func newQueue(most int64) *queue {
	return &queue{most: most, ready: make(chan struct{}, 1), full: make(chan struct{}, 1), byTenant: map[string]int64{}}
}

// add adds the record, and reports whether there was room. It never blocks.
func (q *queue) add(r *record) bool {
	size := r.size()
	q.mu.Lock()
	of := q.byTenant[r.tenant] + size
	if q.closed || of > q.most-q.held {
		q.mu.Unlock()
		return false
	}
	first := q.head == len(q.waiting)
	before := q.held
	q.held += size
	q.byTenant[r.tenant] = of
	q.waiting = append(q.waiting, r)
	q.mu.Unlock()
	if first {
		signal(q.ready)
	}
	if before < batchBytes && before+size >= batchBytes {
		signal(q.full)
	}
	return true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take appends the next records to batch, and their lines to lines. The queue holds their bytes until done.
func (q *queue) take(batch []*record, lines [][]byte) ([]*record, [][]byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for size := 0; q.head < len(q.waiting) && size < batchBytes; q.head++ {
		r := q.waiting[q.head]
		q.waiting[q.head] = nil
		size += len(r.line)
		batch, lines = append(batch, r), append(lines, r.line)
	}
	if q.head > len(q.waiting)/2 {
		left := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[left:])
		q.waiting, q.head = q.waiting[:left], 0
	}
	return batch, lines
}

// done releases the records that take returned.
func (q *queue) done(batch []*record) {
	q.mu.Lock()
	for _, r := range batch {
		size := r.size()
		q.held -= size
		if of := q.byTenant[r.tenant] - size; of > 0 {
			q.byTenant[r.tenant] = of
		} else {
			delete(q.byTenant, r.tenant)
		}
	}
	q.mu.Unlock()
	for _, r := range batch {
		r.release()
	}
}

// bytes returns how many bytes are held.
func (q *queue) bytes() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// close makes add reject all records.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
