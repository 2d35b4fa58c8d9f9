package worker

import (
	"errors"
	"math/rand/v2"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ids hands out the users of processes.
type ids struct {
	from Users

	mu    sync.Mutex // guards what follows
	next  uint32
	taken map[uint32]bool
}

// newIDs begins anywhere, lest two agents of one machine begin with the same.
func newIDs(from Users) *ids {
	return &ids{from: from, next: from.First + rand.Uint32N(from.Last-from.First+1), taken: map[uint32]bool{}}
}

// take returns an id that no process has. One that was given back is the last to be taken
// again.
func (u *ids) take() (uint32, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for range u.from.Last - u.from.First + 1 {
		id := u.next
		if u.next++; u.next > u.from.Last {
			u.next = u.from.First
		}
		if !u.taken[id] && !hasProcess(id) {
			u.taken[id] = true
			return id, nil
		}
	}
	return 0, script.Errorf(script.Unavailable, "--worker-uids", "%v: processes have all of these ids: name more", u.from)
}

func (u *ids) give(id uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.taken, id)
}

// hasProcess reports whether any process of this machine, or container, runs as the user.
func hasProcess(user uint32) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, int(user))
	return !errors.Is(err, unix.ESRCH)
}
