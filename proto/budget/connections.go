package budget

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Connections bounds how many connections the sockets of a process have together, and what
// these hold. It is safe for concurrent use.
type Connections struct {
	// Refused counts the connections that did not enter.
	Refused atomic.Int64

	mu      sync.Mutex
	most    holding
	open    holding
	callers map[string]holding // that have any
}

// holding is a number of connections, and the memory of them.
type holding struct {
	conns int
	bytes int64
}

func (h holding) plus(conns int, bytes int64) holding {
	return holding{h.conns + conns, h.bytes + bytes}
}

// NewConnections returns a bound of so many, which hold so many bytes while they are idle.
func NewConnections(most int, bytes int64) *Connections {
	return &Connections{most: holding{most, bytes}, callers: map[string]holding{}}
}

// mostConnections of a process.
const mostConnections = 20_000

// ConnectionsOf returns the bound of a process that may have so many descriptors, of which it
// needs a quarter for other things.
func ConnectionsOf(descriptors uint64, bytes int64) *Connections {
	return NewConnections(int(min(descriptors-descriptors/4, mostConnections)), bytes)
}

// OwnConnections returns ConnectionsOf this process.
func OwnConnections(bytes int64) *Connections {
	files := unix.Rlimit{Cur: mostConnections}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files) // where it fails, nothing is known of a bound
	return ConnectionsOf(files.Cur, bytes)
}

// SetAside takes from the bound what connections that count for nobody yet may be: at most so many, and
// an eighth of it. It returns how many that are, at least one.
func (c *Connections) SetAside(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	aside := max(min(most, c.most.conns/asideShare), 1)
	c.most.conns -= aside
	return aside
}

// asideShare is the part of a bound that SetAside takes at most.
const asideShare = 8

const (
	// perFree is how much a caller may have for what is free. So one caller gets at most two
	// thirds of all, and there is always a place for another caller.
	perFree = 2
	// The last part of reserveShare is for callers that have few: callers that take what they
	// can are too few to take that.
	reserveShare = 8
	fewShare     = 64
	mostFew      = 16
)

// Enter takes a place for a connection of the caller with so many bytes, and reports whether
// there was one.
func (c *Connections) Enter(caller string, bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, free := c.callers[caller], c.most.plus(-c.open.conns, -c.open.bytes)
	few := held.conns < min(max(c.most.conns/fewShare, 1), mostFew)
	if held.conns >= perFree*free.conns || held.bytes+bytes > perFree*free.bytes ||
		!few && (free.conns <= c.most.conns/reserveShare || free.bytes-bytes < c.most.bytes/reserveShare) ||
		caller == Stranger && (held.conns >= max(c.most.conns/strangerShare, 1) || held.bytes+bytes > c.most.bytes/strangerShare) {
		c.Refused.Add(1)
		return false
	}
	c.open, c.callers[caller] = c.open.plus(1, bytes), held.plus(1, bytes)
	return true
}

// Leave gives back what Enter took.
func (c *Connections) Leave(caller string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = c.open.plus(-1, -bytes)
	if held := c.callers[caller].plus(-1, -bytes); held.conns > 0 {
		c.callers[caller] = held
	} else {
		delete(c.callers, caller)
	}
}

// Open returns how many there are.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open.conns
}

// Most returns how many there may be.
func (c *Connections) Most() int { return c.most.conns }
