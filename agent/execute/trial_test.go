package execute_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

const everywhere = 1<<32 - 1

func ask(t *testing.T, x gateway.Executor, ref string) (string, uint64, error) {
	t.Helper()
	var reply gateway.Reply
	err := x.Execute(t.Context(), &gateway.Call{Script: ref}, &reply)
	if err != nil || reply.Len() == 0 {
		return "", reply.Version, err
	}
	return string(reply.Value(0)), reply.Version, nil
}

func TestACandidateRunsWhereItIsToRun(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	release := func(share uint32) *cache.Release {
		r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 1, Enabled: true}
		for i, src := range []string{"one", "two", "fail", "wait"} {
			n.sources[script.DigestOf([]byte(src))] = []byte(src)
			r.Retained = append(r.Retained, script.Version{Number: uint64(i + 1), Digest: script.DigestOf([]byte(src)), Engine: "fake"})
		}
		r.Active = r.Retained[0]
		r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 1, Threshold: share}
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
		n.table.Update([]*cache.Release{live}, nil)
		return live
	}
	release(0)
	for ref, want := range map[string]string{"acme/route": "one", "acme/route@1": "one", "acme/route@2": "two"} {
		if got, _, err := ask(t, n, ref); err != nil || got != want {
			t.Errorf("before the first step %s answers %q, %v", ref, got, err)
		}
	}
	live := release(everywhere)
	for ref, want := range map[string]string{"acme/route": "two", "acme/route@1": "one", "acme/route@2": "two"} {
		if got, _, err := ask(t, n, ref); err != nil || got != want {
			t.Errorf("where it runs %s answers %q, %v", ref, got, err)
		}
	}
	if list := n.List(); list[0].Active.Number != 2 {
		t.Errorf("listed is %+v", list[0])
	}
	_, _, _ = ask(t, n, "acme/route@3")
	if got, _, err := ask(t, n.Trials(), "acme/route@2"); err != nil || got != "two" {
		t.Errorf("a test answers %q, %v", got, err)
	}
	if calls, failed := live.Calls.Read(); calls != 2 || failed != 0 {
		t.Errorf("%d calls of the candidate are counted, and %d failed; there were 2", calls, failed)
	}
}

// What ends a call for another reason than the script's says nothing of the candidate.
func TestFailedCallsOfACandidate(t *testing.T) {
	const more = time.Minute // than a call has
	for name, c := range map[string]struct {
		source        string
		while         func(cancel func(), turn engine.Turn)
		timeout       time.Duration // of the caller
		calls, failed uint64
	}{
		"it answers":             {source: "fine", timeout: more, calls: 1},
		"it fails":               {source: "fail", timeout: more, calls: 1, failed: 1},
		"it takes too long":      {source: "late", timeout: more, calls: 1, failed: 1},
		"its caller goes":        {source: "wait", timeout: more, while: func(cancel func(), _ engine.Turn) { cancel() }},
		"its caller cannot wait": {source: "wait", timeout: time.Millisecond},
		"it answers nobody":      {source: "fine", timeout: more, while: func(cancel func(), _ engine.Turn) { cancel() }, calls: 1},
		"others had its turn": {source: "late", timeout: more, while: func(_ func(), turn engine.Turn) {
			turn.Bind(func() {})
			<-time.After(20 * time.Millisecond) // which its tenant's share of a processor does not allow
			turn.Yield()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, 1<<20, 2, 2)
				n.settings = script.TenantSettings{CPU: 1}
				r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 1, Enabled: true}
				for i, src := range []string{"one", c.source} {
					n.sources[script.DigestOf([]byte(src))] = []byte(src)
					r.Retained = append(r.Retained, script.Version{Number: uint64(i + 1), Digest: script.DigestOf([]byte(src)), Engine: "fake"})
				}
				r.Active = r.Retained[0]
				r.Candidate = &script.Candidate{Version: r.Retained[1], Spec: r.Settings.Spec, Attempt: 1, Threshold: everywhere}
				live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
				n.table.Update([]*cache.Release{live}, nil)
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				ran := 0
				within := context.WithValue(ctx, whileItRuns{}, func(turn engine.Turn) {
					if ran++; c.while != nil {
						c.while(cancel, turn)
					}
				})
				err := n.Execute(within, &gateway.Call{Script: "acme/route"}, &gateway.Reply{})
				if ran != 1 || (err == nil) != (c.source == "fine") {
					t.Errorf("it ran %d times and ended with %v", ran, err)
				}
				if calls, failed := live.Calls.Read(); calls != c.calls || failed != c.failed {
					t.Errorf("%d calls, %d failed, want %d and %d", calls, failed, c.calls, c.failed)
				}
			})
		})
	}
}

// TestLatencyOfACall: it is what the call took, without what it waited while others had its turn.
func TestLatencyOfACall(t *testing.T) {
	for name, yields := range map[string]bool{"it works": false, "others had its turn": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, 1<<20, 2, 2)
				n.settings = script.TenantSettings{CPU: 1}
				n.sources[script.DigestOf([]byte("one"))] = []byte("one")
				v := script.Version{Number: 1, Digest: script.DigestOf([]byte("one")), Engine: "fake"}
				r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 1, Enabled: true, Active: v, Retained: []script.Version{v}}
				r.Candidate = &script.Candidate{Version: script.Version{Number: 2}, Attempt: 1, Step: 1}
				r.Settings.Rollout.MaxErrorIncrease = new(1.0)
				live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
				n.table.Update([]*cache.Release{live}, nil)
				began := time.Now()
				within := context.WithValue(t.Context(), whileItRuns{}, func(turn engine.Turn) {
					turn.Bind(func() {})
					<-time.After(20 * time.Millisecond)
					if yields {
						turn.Yield() // until its tenant's share of a processor allows it to go on
					}
				})
				if err := n.Execute(within, &gateway.Call{Script: "acme/route"}, &gateway.Reply{}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); yields == (took < 30*time.Millisecond) {
					t.Errorf("it took %v", took)
				}
				calls := live.StepCalls.Read()
				if calls == nil || calls.Calls() != 1 || calls.FailedCalls != 0 || calls.First != script.LatencyBucket(20*time.Millisecond) {
					t.Errorf("counted is %+v", calls)
				}
			})
		})
	}
}

func TestWhatRunsNowhereButInTests(t *testing.T) {
	n := newNode(t, 1<<20, 2, 2)
	untried := func(failed string) func(*script.Release) {
		return func(r *script.Release) {
			r.Candidate = &script.Candidate{Version: r.Active, Spec: r.Settings.Spec, Attempt: 1, Failed: failed}
		}
	}
	n.publish("first", untried(""), "one")
	n.publish("failed", untried("node-3: tests[ping]: want 1, got 2"), "one")
	n.publish("off", func(r *script.Release) { r.Enabled = false }, "one")
	for name, want := range map[string]string{"first": "is being tested", "failed": "has failed its tests: node-3: tests[ping]: want 1, got 2", "off": "is disabled"} {
		for _, ref := range []string{"acme/" + name, "acme/" + name + "@1"} {
			if _, _, err := ask(t, n, ref); script.KindOf(err) != script.Disabled || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", ref, err)
			}
		}
		if i := slices.IndexFunc(n.List(), func(s gateway.Script) bool { return s.Name.Script == name }); n.List()[i].Enabled {
			t.Errorf("%s is listed as one that runs", name)
		}
		if got, version, err := ask(t, n.Trials(), "acme/"+name+"@1"); err != nil || got != "one" || version != 1 {
			t.Errorf("a test of %s: %q of %d, %v", name, got, version, err)
		}
	}
	if _, _, err := ask(t, n.Trials(), "acme/off@7"); script.KindOf(err) != script.NotFound {
		t.Errorf("a test of a version that is not there: %v", err)
	}
}
