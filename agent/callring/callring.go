// Package callring keeps the records of some recent calls of each script in memory, for people who look for a request
// to try.
package callring

import (
	"container/list"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a Ring.
const (
	// PerScript is how many records a Ring keeps of a script.
	PerScript = 20
	// MaxRecord is the size of the largest record that it keeps, in bytes.
	MaxRecord = 16 << 10
	// maxBytes bounds all records together. The scripts that were recorded least recently lose theirs.
	maxBytes = 8 << 20
	// apart is the least time between two records of a script.
	apart = 100 * time.Millisecond
	// overhead is about how many bytes a script takes beside its records.
	overhead = 256
)

// Ring keeps records. The zero Ring is empty. It is safe for concurrent use.
type Ring struct {
	mu      sync.Mutex
	scripts map[script.Name]*list.Element // of kept
	order   list.List                     // the script that was recorded last is in front
	bytes   int
}

// kept is the records of a script.
type kept struct {
	of      script.Name
	last    time.Time
	records [][]byte // the newest last
	bytes   int
}

// Offer keeps a record of the script at the time now, if it is due. It calls record for it only then, and does not wait for
// other calls that offer records: one among many is enough.
func (r *Ring) Offer(of script.Name, now time.Time, record func() []byte) {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	at := r.scripts[of]
	if at != nil && now.Sub(at.Value.(*kept).last) < apart {
		return
	}
	made := record()
	if len(made) > MaxRecord {
		return
	}
	if at == nil {
		if r.scripts == nil {
			r.scripts = map[script.Name]*list.Element{}
		}
		at = r.order.PushFront(&kept{of: of, bytes: overhead})
		r.scripts[of], r.bytes = at, r.bytes+overhead
	}
	r.order.MoveToFront(at)
	k := at.Value.(*kept)
	k.last = now
	r.grow(k, len(made))
	if k.records = append(k.records, made); len(k.records) > PerScript {
		r.grow(k, -len(k.records[0]))
		k.records[0] = nil
		k.records = k.records[1:]
	}
	for r.bytes > maxBytes {
		r.drop(r.order.Back())
	}
}

func (r *Ring) grow(k *kept, bytes int) { k.bytes, r.bytes = k.bytes+bytes, r.bytes+bytes }

func (r *Ring) drop(at *list.Element) {
	k := at.Value.(*kept)
	r.order.Remove(at)
	delete(r.scripts, k.of)
	r.bytes -= k.bytes
}

// Of returns the records of the script, the newest first. They are not to be changed.
func (r *Ring) Of(name script.Name) (records [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.scripts[name]
	if at == nil {
		return nil
	}
	all := at.Value.(*kept).records
	for i := range all {
		records = append(records, all[len(all)-1-i])
	}
	return records
}
