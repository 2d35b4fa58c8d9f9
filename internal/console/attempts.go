package console

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of failed attempts to sign in. With codes of 40 bits, it takes thousands of years to guess one.
const (
	attemptsPerMinute = 20 // of one address
	attemptBurst      = 10
	allPerMinute      = 300 // of all addresses
	allBurst          = 100
	maxAddresses      = 4096 // that are remembered; the one that asked least recently is forgotten
)

// attempts bounds how often somebody may fail to sign in. It is safe for concurrent use.
type attempts struct {
	clock func() time.Time

	mu   sync.Mutex
	all  *rate.Limiter
	by   map[string]*list.Element
	used *list.List // of *asker, the one that asked last first
}

type asker struct {
	address string
	pace    *rate.Limiter
}

func newAttempts(clock func() time.Time) *attempts {
	return &attempts{clock: clock, all: rate.NewLimiter(allPerMinute/60.0, allBurst), by: map[string]*list.Element{}, used: list.New()}
}

// begin takes one attempt of the address. done gives it back if the attempt succeeded.
func (a *attempts) begin(r *http.Request) (done func(ok bool), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	own := a.of(addressOf(r)).ReserveN(now, 1)
	all := a.all.ReserveN(now, 1)
	giveBack := func() {
		own.CancelAt(now)
		all.CancelAt(now)
	}
	if own.DelayFrom(now) > 0 || all.DelayFrom(now) > 0 {
		giveBack()
		return nil, script.Errorf(script.Limit, "", "there were too many attempts to sign in that failed: wait a minute")
	}
	return func(ok bool) {
		if ok {
			giveBack()
		}
	}, nil
}

// of returns the limiter of an address; mu is held.
func (a *attempts) of(address string) *rate.Limiter {
	if e := a.by[address]; e != nil {
		a.used.MoveToFront(e)
		return e.Value.(*asker).pace
	}
	if a.used.Len() >= maxAddresses {
		delete(a.by, a.used.Remove(a.used.Back()).(*asker).address)
	}
	made := &asker{address, rate.NewLimiter(attemptsPerMinute/60.0, attemptBurst)}
	a.by[address] = a.used.PushFront(made)
	return made.pace
}

// addressOf returns where a request comes from: of IPv6, the network that one site has.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().Is4() {
		return host
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return host
	}
	return network.String()
}
