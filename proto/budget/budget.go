// Package budget bounds the memory that callers make a server hold: requests that have not
// fully arrived or wait for their turn, and replies that nobody has read. The servers of one
// process share a Budget.
package budget

import (
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Stranger is the name of all callers whom the server does not know, together.
const Stranger = ""

const (
	callerShare   = 2 // a caller holds at most one part of so many
	strangerShare = 8 // and all strangers together one of so many
	burstShare    = 4 // requests that were given up hold their memory for another moment

	// mostCallers are remembered while they hold nothing.
	mostCallers = 1024
)

// Why a request is given up.
var (
	ErrOverloaded = script.Errorf(script.Overloaded, "",
		"the server holds as many bytes of unfinished requests as it may: send fewer at a time, and each one at once")
	ErrSlow = script.Errorf(script.Timeout, "",
		"the request did not fully arrive in time: send it at once")
	ErrUnread = script.Errorf(script.Overloaded, "",
		"the server holds as many bytes of unread replies as it may: read them, or ask for fewer at a time")
)

// Budget is safe for concurrent use.
type Budget struct {
	mu      sync.Mutex
	total   account
	callers map[string]*account
	garbage *garbage      // nil: memory counts as free once nobody uses it
	freed   chan struct{} // closed when requests that were given up have given bytes back
}

// New returns a Budget of so many bytes.
func New(bytes int64) *Budget {
	return &Budget{total: account{most: bytes}, callers: map[string]*account{}, freed: make(chan struct{})}
}

// Held returns how many bytes all claims hold, also those of requests that were given up.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total.held
}

// account is of one caller, or of all.
type account struct {
	most   int64
	held   int64
	dying  int64 // of held: requests that were given up
	claims int

	oldest, newest *Claim // that wait for their caller
}

func (a *account) fits(n int64) bool { return a.held-a.dying+n <= a.most }

// bursts reports whether even the margin for requests that were given up has no room for n bytes.
func (a *account) bursts(n int64) bool { return a.held+n > a.most+a.most/burstShare }

// Holder is a request that a Budget can give up.
type Holder interface {
	// GiveUp ends the request with the error. It must not block. The Claim holds its
	// bytes until Close.
	GiveUp(err error)
}

// Claim is what one request holds. The zero Claim is ready for Open.
type Claim struct {
	budget *Budget
	caller *account
	holder Holder
	held   int64
	dying  bool

	waits        bool      // for more of the request
	due          time.Time // when it has to be complete; zero: whenever
	older, newer *Claim
}

// Open opens a claim of the caller's.
func (b *Budget) Open(c *Claim, caller string, holder Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.callers[caller]
	if a == nil {
		a = &account{most: b.total.most / callerShare}
		if caller == Stranger {
			a.most = b.total.most / strangerShare
		}
		if len(b.callers) >= mostCallers {
			b.forget()
		}
		b.callers[caller] = a
	}
	a.claims++
	*c = Claim{budget: b, caller: a, holder: holder}
}

// forget removes callers without claims.
func (b *Budget) forget() {
	for name, a := range b.callers {
		if a.claims == 0 && a.held == 0 {
			delete(b.callers, name)
		}
	}
}

// Close gives back what the claim holds. The claim is not used any more.
func (c *Claim) Close() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.unlink()
	c.caller.claims--
	if c.dying && c.budget.garbage != nil {
		c.budget.drop(c.caller, c.held)
		return
	}
	c.add(-c.held)
	if c.dying {
		c.budget.signal()
	}
}

// signal wakes those that wait for bytes of requests that were given up. b.mu is held.
func (b *Budget) signal() {
	close(b.freed)
	b.freed = make(chan struct{})
}

// Take takes n bytes that have arrived, or are about to. The oldest unfinished requests
// make room: those of the same caller, or those of the caller who holds most. If there
// are none, the request itself is given up. It reports whether the server can go on with the
// connection: if requests are given up faster than their memory comes back, it cannot. It
// waits while garbage is collected.
func (c *Claim) Take(n int64) bool {
	b := c.budget
	b.mu.Lock()
	fits, victims := b.makeRoom(c, n)
	if !fits && c.waits {
		victims = append(victims, c.expel())
	}
	taken := c.addWithin(n)
	b.mu.Unlock()
	giveUp(victims, ErrOverloaded)
	if taken || b.awaitGarbage(func() bool { return c.addWithin(n) }) {
		return true
	}
	c.Give(-n)
	return false
}

// Try takes n bytes if there is room, and reports whether there was. It waits while garbage is
// collected, and a little for requests that were given up to end.
func (c *Claim) Try(n int64) bool {
	b := c.budget
	taken, fits := c.try(n, b.garbage == nil)
	switch {
	case taken || !fits:
		return taken
	case b.garbage != nil:
		return b.awaitGarbage(func() bool { return c.tryAdd(n) })
	}
	b.awaitEnds(func() bool { return c.hasMargin(n) })
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.tryAdd(n)
}

// Hold takes n bytes of a reply as Try does, but does not wait: the reply is in memory.
func (c *Claim) Hold(n int64) bool {
	taken, _ := c.try(n, false)
	return taken
}

// try takes n bytes if they fit, and if thrifty, what was given up has to leave room for them.
func (c *Claim) try(n int64, thrifty bool) (taken, fits bool) {
	b := c.budget
	b.mu.Lock()
	fits, victims := b.makeRoom(c, n)
	taken = fits && (!thrifty || c.hasMargin(n)) && c.tryAdd(n)
	b.mu.Unlock()
	giveUp(victims, ErrOverloaded)
	return taken, fits
}

// tryAdd adds n bytes if they fit. In a process whose memory is capped, what was given up has to
// leave room, too.
func (c *Claim) tryAdd(n int64) bool {
	if !c.caller.fits(n) || !c.budget.fits(c.caller, n) {
		return false
	}
	if c.budget.garbage != nil {
		return c.addWithin(n)
	}
	c.add(n)
	return true
}

// addWithin adds n bytes if even the margin for requests that were given up has room for them.
func (c *Claim) addWithin(n int64) bool {
	if !c.hasMargin(n) {
		return false
	}
	c.add(n)
	return true
}

// hasMargin reports whether requests that were given up leave room for n bytes.
func (c *Claim) hasMargin(n int64) bool {
	b := c.budget
	margin := b.total.most / burstShare
	if !b.isFew(c.caller, n) {
		margin -= b.total.most / reserveShare
	}
	return !c.caller.bursts(n) && b.total.held+n <= b.total.most+margin
}

// endPatience is how long a request waits for others to end that were given up.
const endPatience = 100 * time.Millisecond

// awaitEnds waits until ok, which it calls with b.mu held.
func (b *Budget) awaitEnds(ok func() bool) {
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	for {
		b.mu.Lock()
		done, freed := ok(), b.freed
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-freed:
		case <-patience.C:
			return
		}
	}
}

// isFew reports whether the caller has little, with n bytes more. Callers that have much leave a
// part of the margin to those, so that several of them together cannot take all there is.
func (b *Budget) isFew(caller *account, n int64) bool {
	return caller.held+n <= b.total.most/fewShare
}

// fits reports whether there is room in all for n bytes more of the caller's.
func (b *Budget) fits(caller *account, n int64) bool {
	if b.isFew(caller, n) {
		n -= b.total.most / burstShare
	}
	return b.total.fits(n)
}

// Give gives n bytes back.
func (c *Claim) Give(n int64) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.add(-n)
}

// Await says that the caller is to send more, which has to be complete at due. If it waits
// already, it goes on to wait until then.
func (c *Claim) Await(due time.Time) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.waits || c.dying {
		return
	}
	c.waits, c.due = true, due
	a := c.caller
	if c.older = a.newest; c.older != nil {
		c.older.newer = c
	} else {
		a.oldest = c
	}
	a.newest = c
}

// Arrived says that the request is complete.
func (c *Claim) Arrived() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.unlink()
}

// Expire gives up the requests that had to be complete before now.
func (b *Budget) Expire(now time.Time) {
	var late []Holder
	b.mu.Lock()
	for _, a := range b.callers {
		for c := a.oldest; c != nil; {
			next := c.newer
			if !c.due.IsZero() && c.due.Before(now) {
				late = append(late, c.expel())
			}
			c = next
		}
	}
	b.mu.Unlock()
	giveUp(late, ErrSlow)
}

func giveUp(holders []Holder, err error) {
	for _, h := range holders {
		h.GiveUp(err)
	}
}

// makeRoom gives up unfinished requests until n bytes fit, and reports whether they do.
func (b *Budget) makeRoom(c *Claim, n int64) (fits bool, victims []Holder) {
	if c.held+n > c.caller.most {
		return false, nil
	}
	for !c.caller.fits(n) || !b.fits(c.caller, n) {
		from := c.caller
		if from.fits(n) {
			from = b.largest()
		}
		victim := from.oldest
		if victim == c {
			victim = c.newer
		}
		if victim == nil {
			return false, victims
		}
		victims = append(victims, victim.expel())
	}
	return true, victims
}

// largest returns the account of the caller who holds most.
func (b *Budget) largest() *account {
	var most *account
	for _, a := range b.callers {
		if most == nil || a.held-a.dying > most.held-most.dying {
			most = a
		}
	}
	return most
}

// expel takes a claim out of those that wait; the caller gives its holder up.
func (c *Claim) expel() Holder {
	c.unlink()
	c.dying = true
	c.caller.dying += c.held
	c.budget.total.dying += c.held
	return c.holder
}

func (c *Claim) add(n int64) {
	c.held += n
	for _, a := range [...]*account{c.caller, &c.budget.total} {
		a.held += n
		if c.dying {
			a.dying += n
		}
	}
}

func (c *Claim) unlink() {
	if !c.waits {
		return
	}
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		c.caller.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		c.caller.newest = c.older
	}
	c.waits, c.older, c.newer = false, nil, nil
}
