package shadow

import (
	"slices"
	"sync"
)

// MaxKept is of how many candidates a process keeps samples and states. Each may take half a MiB, and a
// tenant may have thousands.
const MaxKept = 128

// Kept bounds what is kept of many candidates. The zero Kept has none. It is safe for concurrent use.
type Kept struct {
	mu   sync.Mutex
	used []*Counts // the last one was used last
}

// Use keeps what c has. The candidate that was used least recently loses its samples, and its counters
// begin at zero again, if there are too many.
func (k *Kept) Use(c *Counts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.used, c); i >= 0 {
		k.used = slices.Delete(k.used, i, i+1)
	} else if len(k.used) == MaxKept {
		k.used[0].forget()
		k.used = slices.Delete(k.used, 0, 1)
	}
	k.used = append(k.used, c)
}

func (c *Counts) forget() {
	c.State.reset()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findings.Samples = nil
}
