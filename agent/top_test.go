package agent_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/agent"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// startCalled starts a node that calls acme/s0, acme/s1 … in turn until the test ends.
func startCalled(t *testing.T, scripts, places int) *asker {
	t.Helper()
	r := newRegistry(t)
	for i := range scripts {
		r.publish(fmt.Sprint("s", i), "one")
	}
	r.start()
	n := startNode(t, r, t.TempDir(), func(c *agent.Config) { c.MetricScripts = places })
	n.answers(t, r, "acme/s0", "one") // which has a place from now on
	n.answers(t, r, fmt.Sprint("acme/s", scripts-1), "one")
	stop := make(chan struct{})
	var calling sync.WaitGroup
	calling.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = n.call(t, fmt.Sprint("acme/s", i%scripts))
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		calling.Wait()
	})
	return newAsker(t, r)
}

func (a *asker) top(maxBytes int64, tenant string, q *eventv1.TopQuery) (scripts []*eventv1.ScriptTop, last *eventv1.Answer) {
	a.t.Helper()
	q.Period = durationpb.New(300 * time.Millisecond)
	parts := a.await(a.send(&eventv1.Query{Tenant: tenant, MaxBytes: maxBytes, Kind: &eventv1.Query_Top{Top: q}}))
	for _, p := range parts {
		scripts = append(scripts, p.GetTop().GetScripts()...)
		if p.GetError() == nil && p.GetTop().GetPeriod().AsDuration() < q.GetPeriod().AsDuration() {
			a.t.Errorf("it counted for %v, want %v", p.GetTop().GetPeriod().AsDuration(), q.GetPeriod().AsDuration())
		}
	}
	return scripts, parts[len(parts)-1]
}

// TestTop: the agent counts the calls of scripts that have a place, and of all others together.
func TestTop(t *testing.T) {
	a := startCalled(t, 3, 2)
	scripts, last := a.top(1<<20, "acme", &eventv1.TopQuery{})
	if len(scripts) != 2 || last.GetTop().GetOthers().GetCalls() == 0 {
		t.Fatalf("%v and %v, want two scripts and others", scripts, last)
	}
	for _, s := range scripts {
		in := uint64(0)
		for _, n := range s.GetBuckets() {
			in += n
		}
		if s.GetTenant() != "acme" || s.GetCalls() == 0 || in != s.GetCalls() || s.GetErrors() > 0 {
			t.Errorf("counted %v", s)
		}
	}
	if scripts, last := a.top(1<<20, "", &eventv1.TopQuery{Limit: 1}); len(scripts) != 1 || last.GetTop().GetOthers().GetCalls() < scripts[0].GetCalls() {
		t.Errorf("of one script at most: %v, %v", scripts, last)
	}
	if scripts, _ := a.top(1<<20, "acme", &eventv1.TopQuery{Name: "s0"}); len(scripts) != 1 || scripts[0].GetName() != "s0" {
		t.Errorf("of a script: %v", scripts)
	}
	if scripts, last := a.top(1<<20, "acme", &eventv1.TopQuery{Name: "s1"}); len(scripts) > 0 || script.Kind(last.GetError().GetKind()) != script.Unavailable {
		t.Errorf("of a script without a place: %v, %v", scripts, last)
	}
	if scripts, last := a.top(1<<20, "shop", &eventv1.TopQuery{}); len(scripts) > 0 || last.GetTop().GetOthers() != nil || last.GetError() != nil {
		t.Errorf("of a tenant without calls: %v, %v", scripts, last)
	}
	// As many as a registry asks for at a time, and one more. Queries about one tenant get fewer.
	for range 9 {
		a.send(&eventv1.Query{MaxBytes: 1 << 20, Kind: &eventv1.Query_Top{Top: &eventv1.TopQuery{Period: durationpb.New(3 * time.Second)}}})
	}
	answered := 0
	for range 9 {
		msg, err := a.answers.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var env eventv1.Envelope
		var m eventv1.Answer
		if err := proto.Unmarshal(msg.Data, &env); err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(env.GetPayload(), &m); err != nil {
			t.Fatal(err)
		}
		if m.GetError() == nil {
			answered++
		} else if script.Kind(m.GetError().GetKind()) != script.Overloaded {
			t.Errorf("%v", m.GetError())
		}
	}
	if answered < 8 {
		t.Errorf("%d of 9 queries were answered, want 8", answered)
	}
}

// TestTopWithLittleRoom: what has no room is among the others.
func TestTopWithLittleRoom(t *testing.T) {
	a := startCalled(t, 60, 0)
	scripts, last := a.top(1000, "", &eventv1.TopQuery{})
	if len(scripts) == 0 || len(scripts) >= 60 || last.GetError() != nil || last.GetTop().GetOthers().GetCalls() == 0 {
		t.Errorf("%d scripts, and %v", len(scripts), last)
	}
	if scripts, last := a.top(100, "", &eventv1.TopQuery{}); len(scripts) > 0 || last.GetError() != nil {
		t.Errorf("without room: %d scripts, and %v", len(scripts), last)
	}
}

// TestMetricsAreBounded: however many scripts are live, and whatever callers call, an agent has no more series than for
// the scripts that have a place.
func TestMetricsAreBounded(t *testing.T) {
	const scripts, places = 60, 10
	r := newRegistry(t)
	for i := range scripts {
		r.publish(fmt.Sprint("s", i), "one")
	}
	r.start()
	metrics := prometheus.NewRegistry()
	n := startNode(t, r, t.TempDir(), func(c *agent.Config) { c.Metrics, c.MetricScripts = metrics, places })
	n.answers(t, r, fmt.Sprint("acme/s", scripts-1), "one")
	series := func() (all int, ofScripts map[string]bool) {
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		ofScripts = map[string]bool{}
		for _, f := range families {
			all += len(f.GetMetric())
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "script" {
						ofScripts[l.GetValue()] = true
					}
				}
			}
		}
		return all, ofScripts
	}
	for range 2 {
		for i := range scripts {
			if _, err := n.call(t, fmt.Sprint("acme/s", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	before, names := series()
	if len(names) != places+1 || !names["other"] {
		t.Errorf("there are series of %v, want %d scripts and other", names, places)
	}
	for i := range 100_000 / 4 {
		for _, ref := range []string{"acme/made-up-%d", "made-up-%d/route", "acme/s0@1%d", "acme/\x00\xff%d"} {
			if got, err := n.call(t, fmt.Sprintf(ref, i)); err == nil {
				t.Fatalf("%q answers %s", fmt.Sprintf(ref, i), got)
			}
		}
	}
	if after, _ := series(); after > before+20 { // an outcome may be new
		t.Errorf("there are %d series after 100,000 names, and %d before", after, before)
	}
}
