package budget_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// request is a Holder.
type request struct {
	budget.Claim
	why error
}

func (r *request) GiveUp(err error) { r.why = err }

func open(b *budget.Budget, caller string) *request {
	r := &request{}
	b.Open(&r.Claim, caller, r)
	return r
}

// waiting opens a request that waits, and takes n bytes for it.
func waiting(b *budget.Budget, caller string, n int64) *request {
	r := open(b, caller)
	r.Await(time.Time{})
	r.Take(n)
	return r
}

func givenUp(requests ...*request) (which []bool) {
	for _, r := range requests {
		which = append(which, r.why != nil)
	}
	return which
}

func TestTheOldestMakesRoom(t *testing.T) {
	b := budget.New(1000) // 500 for each caller
	first, second, other := waiting(b, "a", 200), waiting(b, "a", 200), waiting(b, "b", 200)
	third := waiting(b, "a", 200)
	if got := givenUp(first, second, other, third); !slices.Equal(got, []bool{true, false, false, false}) {
		t.Errorf("given up: %v", got)
	}
	if !errors.Is(first.why, budget.ErrOverloaded) {
		t.Error(first.why)
	}
	// In all, it is the caller with the most who makes room.
	waiting(b, "b", 250)
	fourth := waiting(b, "c", 200)
	if got := givenUp(second, other, third, fourth); !slices.Equal(got, []bool{false, true, false, false}) {
		t.Errorf("given up: %v", got)
	}
}

func TestNoRoom(t *testing.T) {
	b := budget.New(1000)
	running := waiting(b, "a", 400)
	running.Arrived()
	late := waiting(b, "a", 200)
	if running.why != nil || late.why == nil {
		t.Errorf("the running one: %v; the one that arrives: %v", running.why, late.why)
	}
	if reply := open(b, "a"); reply.Try(101) || !reply.Try(100) {
		t.Error("a reply gets more, or less, than there is")
	}
	if other := open(b, "b"); !other.Try(500) {
		t.Error("another caller gets less than its share")
	}
	if stranger := open(b, budget.Stranger); stranger.Try(126) || stranger.Try(101) {
		t.Error("strangers get more than there is")
	}
}

// TestMemoryThatDoesNotComeBack: requests that were given up hold their memory until they
// are closed.
func TestMemoryThatDoesNotComeBack(t *testing.T) {
	b := budget.New(1000)
	var all []*request
	for range 4 {
		all = append(all, waiting(b, "a", 250))
	}
	// 500 of 1000 bytes are given up, and the margin has 125.
	if r := open(b, "a"); r.Take(1) {
		t.Error("the margin has no end")
	}
	for _, r := range all {
		r.Close()
	}
	if r := open(b, "a"); !r.Take(500) {
		t.Error("the bytes were not given back")
	}
}

// TestTwoCallersTakeAll: callers that take all they get, together, leave room for others that
// hold little.
func TestTwoCallersTakeAll(t *testing.T) {
	for name, take := range map[string]func(*request) bool{
		"what has arrived": func(r *request) bool { return r.Take(20) },
		"replies":          func(r *request) bool { return r.Try(20) },
	} {
		b := budget.New(1000)
		for _, caller := range []string{"a", "b", "a", "b"} {
			for r := open(b, caller); take(r); r = open(b, caller) {
			}
		}
		for _, caller := range []string{"c", "d", budget.Stranger} {
			if call := waiting(b, caller, 10); call.why != nil {
				t.Errorf("%s: a call of %q: %v", name, caller, call.why)
			}
			if reply := open(b, caller); !reply.Try(5) {
				t.Errorf("%s: there is no room for a reply to %q", name, caller)
			}
		}
	}
}

func TestExpire(t *testing.T) {
	b := budget.New(1000)
	now := time.Now()
	late, early, complete := open(b, "a"), open(b, "a"), open(b, "a")
	late.Await(now.Add(-2 * time.Second))
	late.Await(now.Add(time.Hour)) // it waits already
	complete.Await(now.Add(-time.Second))
	complete.Arrived()
	early.Await(now.Add(time.Second))
	b.Expire(now)
	if got := givenUp(late, early, complete); !slices.Equal(got, []bool{true, false, false}) || !errors.Is(late.why, budget.ErrSlow) {
		t.Errorf("given up: %v; %v", got, late.why)
	}
}

func TestManyCallers(t *testing.T) {
	b := budget.New(1000)
	for i := range 5000 {
		r := open(b, string(rune(i)))
		r.Take(1)
		r.Close()
	}
	if r := open(b, "a"); !r.Try(500) {
		t.Error("callers that are gone hold bytes")
	}
}
