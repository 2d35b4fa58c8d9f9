package trial_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/trial"
	"github.com/scriptorium-dev/scriptorium/script"
)

// node is what tests run on: calls wait for a while, and end as it says.
type node struct {
	*trial.Tester
	changes int

	mu      sync.Mutex
	calls   []string // "tenant/name@version argument"
	running int
	most    int // that ran at once
	answer  func(call string, times int) error
}

var (
	errEnded = errors.New("the process ended")
	errAlone = fmt.Errorf("%w, and nothing else ran", errEnded)
)

const takes = 10 * time.Millisecond

// onNode runs f with a tester that runs.
func onNode(t *testing.T, tenants int, answer func(call string, times int) error, f func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &node{answer: answer}
		n.Tester = trial.New(trial.Config{
			Execute: n.execute, Tenants: tenants, Changed: func() { n.mu.Lock(); n.changes++; n.mu.Unlock() },
			Ended: func(err error) (ended, alone bool) {
				return errors.Is(err, errEnded), errors.Is(err, errAlone)
			}, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- n.Run(ctx) }()
		f(n)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n.running != 0 {
			t.Errorf("%d tests run after the end", n.running)
		}
	})
}

func (n *node) execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	text := call.Script + " " + string(call.Args[0])
	n.mu.Lock()
	n.calls = append(n.calls, text)
	times := 0
	for _, c := range n.calls {
		if c == text {
			times++
		}
	}
	n.running++
	n.most = max(n.most, n.running)
	n.mu.Unlock()
	defer func() { n.mu.Lock(); n.running--; n.mu.Unlock() }()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return script.Errorf(script.Timeout, "", "the call was canceled")
	}
	if err := n.answer(text, times); err != nil {
		return err
	}
	return reply.Append(func(dst []byte) ([]byte, error) { return append(dst, call.Args[0]...), nil })
}

// release has a candidate, of which each of the requests must be answered with itself.
func release(name string, version, attempt uint64, requests ...string) *script.Release {
	r := &script.Release{
		Name:      script.Name{Tenant: "acme", Script: name},
		Active:    script.Version{Number: 1},
		Candidate: &script.Candidate{Version: script.Version{Number: version}, Attempt: attempt},
	}
	for _, req := range requests {
		r.Candidate.Spec.Tests = append(r.Candidate.Spec.Tests, script.Test{Name: "t" + req, Request: []byte(req), Expect: []byte(req)})
	}
	return r
}

// wait lets the time pass that so many tests take.
func wait(tests int) {
	<-time.After(time.Duration(tests)*takes + takes/2)
	synctest.Wait()
}

func well(string, int) error { return nil }

func (n *node) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, r := range n.Results() {
		line := fmt.Sprintf("%s@%d/%d", r.Script.Script, r.Version, r.Attempt)
		switch {
		case r.Err != nil:
			line += " " + string(r.Err.Kind) + " " + r.Err.Error()
		case r.Tested:
			line += " passed"
		case r.Waiting != nil:
			line += " waits: " + string(r.Waiting.Kind) + " " + r.Waiting.Error()
		}
		if r.GivenUp {
			line += ", given up"
		}
		got = append(got, line)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("results %q\nwant    %q", got, want)
	}
}

func TestEachAttemptIsTestedOnce(t *testing.T) {
	onNode(t, 1, well, func(n *node) {
		n.Live([]*script.Release{release("a", 2, 5, "1", "2"), release("b", 2, 6), {Name: script.Name{Tenant: "acme", Script: "c"}}}, nil)
		n.want(t, "a@2/5")
		wait(2)
		n.want(t, "a@2/5 passed")
		moved := release("a", 2, 5, "1", "2")
		moved.Candidate.Step, moved.Candidate.Threshold = 1, 1<<31
		n.Live([]*script.Release{moved}, nil)
		wait(2)
		if len(n.calls) != 2 || n.changes != 1 {
			t.Errorf("%d changes by the calls %q", n.changes, n.calls)
		}
		n.Live([]*script.Release{release("a", 2, 7, "1", "2")}, nil)
		n.want(t, "a@2/7")
		wait(2)
		n.want(t, "a@2/7 passed")
		n.Live([]*script.Release{release("a", 3, 8, "3")}, nil)
		wait(1)
		n.want(t, "a@3/8 passed")
		if want := []string{"acme/a@2 1", "acme/a@2 2", "acme/a@2 1", "acme/a@2 2", "acme/a@3 3"}; !slices.Equal(n.calls, want) {
			t.Errorf("calls %q", n.calls)
		}
		promoted := release("a", 3, 8)
		promoted.Candidate = nil
		n.Live([]*script.Release{promoted}, nil)
		n.want(t)
	})
}

// TestACandidateThatIsFrozen: it is tested when the freeze is over, which makes it another attempt.
func TestACandidateThatIsFrozen(t *testing.T) {
	onNode(t, 1, well, func(n *node) {
		frozen := release("a", 2, 5, "1")
		frozen.Candidate.Frozen = "by ann"
		n.Live([]*script.Release{frozen}, nil)
		wait(1)
		n.want(t)
		n.Live([]*script.Release{release("a", 2, 6, "1")}, nil)
		wait(1)
		n.want(t, "a@2/6 passed")
	})
}

func TestACandidateThatIsGivenUp(t *testing.T) {
	onNode(t, 1, well, func(n *node) {
		failed := release("a", 2, 5, "1")
		failed.Candidate.Failed = "node-7: tests[t1]: want 1, got 2"
		n.Live([]*script.Release{failed, release("b", 2, 5, "1")}, nil)
		wait(1)
		n.want(t, "b@2/5 passed")
		given := release("b", 2, 5, "1")
		given.Candidate.Failed = "aborted"
		n.Live([]*script.Release{given, release("c", 2, 5, "1", "2")}, nil)
		n.want(t, "b@2/5 passed, given up", "c@2/5")
		synctest.Wait()
		stopped := release("c", 2, 5, "1", "2")
		stopped.Candidate.Failed = "aborted"
		n.Live([]*script.Release{stopped}, nil)
		wait(3)
		n.want(t, "b@2/5 passed, given up")
		n.Live(nil, []script.Name{{Tenant: "acme", Script: "b"}, {Tenant: "acme", Script: "unknown"}})
		n.want(t)
		if len(n.calls) != 2 || n.running != 0 {
			t.Errorf("calls %q, %d run", n.calls, n.running)
		}
	})
}

// The numbers of an attempt are given out again by a registry that lost its store.
func TestAnotherAttemptOfTheSameNumber(t *testing.T) {
	onNode(t, 1, well, func(n *node) {
		n.Live([]*script.Release{release("a", 2, 5, "1")}, nil)
		wait(1)
		same := release("a", 2, 5, "1")
		same.Candidate.Since = time.Now()
		otherTests, otherSource := release("a", 2, 5, "2"), release("a", 2, 5, "2")
		otherSource.Candidate.Version.Digest = script.DigestOf([]byte("other"))
		staging := func(content string) *script.Release {
			r := release("a", 2, 5, "2")
			r.Candidate.Version.Digest = otherSource.Candidate.Version.Digest
			r.Candidate.Set = &script.Membership{Name: "s", Values: []script.StagedValue{{Key: "k", Digest: script.DigestOf([]byte(content))}}}
			return r
		}
		for i, r := range []*script.Release{same, otherTests, otherSource, staging("a"), staging("b")} {
			n.Live([]*script.Release{r}, nil)
			wait(1)
			n.want(t, "a@2/5 passed")
			if len(n.calls) != i+1 {
				t.Errorf("release %d: %d tests were run", i, len(n.calls))
			}
		}
	})
}

func TestAnAttemptThatIsReplacedMeanwhile(t *testing.T) {
	onNode(t, 1, well, func(n *node) {
		n.Live([]*script.Release{release("a", 2, 5, "1", "2", "3")}, nil)
		wait(1)
		n.Live([]*script.Release{release("a", 3, 6, "4")}, nil)
		wait(1)
		n.want(t, "a@3/6 passed")
		if n.changes != 1 || n.most != 1 {
			t.Errorf("%d changes, %d at once", n.changes, n.most)
		}
	})
}

func TestTenantsTakeTurns(t *testing.T) {
	for _, tenants := range []int{1, 2} {
		onNode(t, tenants, well, func(n *node) {
			var all []*script.Release
			for i := range 20 {
				r := release(fmt.Sprint("s", i/2), 2, 1, "1", "2")
				r.Name.Tenant = []string{"acme", "shop"}[i%2]
				all = append(all, r)
			}
			n.Live(all, nil)
			wait(40 / tenants)
			for _, r := range n.Results() {
				if !r.Tested || r.Err != nil {
					t.Errorf("%+v", r)
				}
			}
			if n.most != tenants || n.changes != 20 {
				t.Errorf("%d tests at once, want %d; %d changes", n.most, tenants, n.changes)
			}
			// Each tenant's in their order, and neither before the other.
			for i, want := range []string{"acme/s0@2 1", "shop/s0@2 1", "acme/s0@2 2", "shop/s0@2 2", "acme/s1@2 1"} {
				if tenants == 1 && n.calls[i] != want {
					t.Errorf("call %d is %s, want %s", i, n.calls[i], want)
				}
			}
		})
	}
}

// One tenant has one place, however many scripts it has: others' are tested meanwhile.
func TestOneTenantStopsNobodyElse(t *testing.T) {
	forever := func(call string, _ int) error {
		if strings.HasPrefix(call, "acme/") {
			<-time.After(time.Hour)
		}
		return nil
	}
	onNode(t, 0, forever, func(n *node) {
		for i := range 100 {
			n.Live([]*script.Release{release(fmt.Sprint("s", i), 2, 1, "1")}, nil)
		}
		other := release("cart", 2, 1, "1")
		other.Name.Tenant = "shop"
		n.Live([]*script.Release{other}, nil)
		wait(1)
		n.mu.Lock()
		changes, running := n.changes, n.running
		n.mu.Unlock()
		if changes != 1 || running != 1 {
			t.Errorf("%d scripts are tested, and %d tests run", changes, running)
		}
		<-time.After(101 * time.Hour)
	})
}

func TestHowTestsEnd(t *testing.T) {
	fails := func(kind script.Kind, until int) func(string, int) error {
		return func(_ string, times int) error {
			if times > until {
				return nil
			}
			switch kind {
			case "ALONE":
				return &script.Error{Kind: script.Unavailable, Message: "gone", Err: errAlone}
			case "ENDED":
				return &script.Error{Kind: script.Unavailable, Message: "gone", Err: errEnded}
			}
			return script.Errorf(kind, "", "no luck")
		}
	}
	const always = 1 << 30
	for name, c := range map[string]struct {
		answer func(string, int) error
		calls  int
		want   string
	}{
		"an error of the script":    {fails(script.Script, always), 1, "a@2/1 SCRIPT tests[t1]: no luck"},
		"a limit":                   {fails(script.Limit, always), 1, "a@2/1 LIMIT tests[t1]: no luck"},
		"an engine that is missing": {fails(script.Invalid, always), 1, "a@2/1 INVALID tests[t1]: no luck"},
		"one timeout":               {fails(script.Timeout, 1), 2, "a@2/1 passed"},
		"timeouts":                  {fails(script.Timeout, always), 3, "a@2/1 TIMEOUT tests[t1]: no luck"},
		"one end":                   {fails("ALONE", 1), 2, "a@2/1 passed"},
		"ends":                      {fails("ALONE", always), 2, "a@2/1 UNAVAILABLE tests[t1]: gone"},
		"ends beside others":        {fails("ENDED", 9), 10, "a@2/1 passed"},
		"too many of them":          {fails("ENDED", always), 10, "a@2/1 UNAVAILABLE tests[t1]: gone"},
		"a busy node":               {fails(script.Overloaded, 5), 6, "a@2/1 passed"},
		"a source far away":         {fails(script.Unavailable, 5), 6, "a@2/1 passed"},
		"faults":                    {fails(script.Internal, 2), 3, "a@2/1 passed"},
		"one fault after another":   {fails(script.Internal, always), 3, "a@2/1 INTERNAL tests[t1]: no luck"},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, 1, c.answer, func(n *node) {
				n.Live([]*script.Release{release("a", 2, 1, "1")}, nil)
				wait(6000)
				n.want(t, c.want)
				if len(n.calls) != c.calls {
					t.Errorf("%d calls, want %d", len(n.calls), c.calls)
				}
			})
		})
	}
}

// What cannot be tested yet holds up nobody else, and stops when the candidate is gone.
func TestWhatCannotBeTested(t *testing.T) {
	never := func(call string, _ int) error {
		if call == "acme/a@2 1" {
			return script.Errorf(script.Overloaded, "", "busy")
		}
		return nil
	}
	onNode(t, 1, never, func(n *node) {
		n.Live([]*script.Release{release("a", 2, 1, "1"), release("b", 2, 1, "1")}, nil)
		wait(2)
		n.want(t, "a@2/1 waits: OVERLOADED tests[t1]: busy", "b@2/1 passed")
		wait(360_000) // an hour
		n.want(t, "a@2/1 waits: OVERLOADED tests[t1]: busy", "b@2/1 passed")
		if len(n.calls) < 300 || len(n.calls) > 500 {
			t.Errorf("%d calls in an hour", len(n.calls))
		}
		n.Live(nil, []script.Name{{Tenant: "acme", Script: "a"}})
		before := len(n.calls)
		wait(10_000)
		n.want(t, "b@2/1 passed")
		if len(n.calls) != before {
			t.Error("it is tried again though it is gone")
		}
	})
}

func TestTheAgentStops(t *testing.T) {
	onNode(t, 2, well, func(n *node) {
		n.Live([]*script.Release{release("a", 2, 1, "1", "2"), release("b", 2, 1, "1")}, nil)
		synctest.Wait() // the first tests run
	})
}
