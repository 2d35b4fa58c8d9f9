package worker_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestACandidateByKeyEndsTheProcess: the end counts against the candidate. Once that is given up, calls
// with its keys run the active version, and its quarantine is over.
func TestACandidateByKeyEndsTheProcess(t *testing.T) {
	w := newWorld(t, func(c *worker.Config) { c.Quarantine.Deaths = 2 }, walled("acme"))
	name := script.Name{Tenant: "acme", Script: "route"}
	commit := func(change func(r *script.Release)) *cache.Release {
		w.revision++
		r := script.Release{Name: name, Revision: w.revision, Enabled: true}
		for i, src := range []string{"one", "overflow"} {
			r.Retained = append(r.Retained, script.Version{Number: uint64(i + 1), Digest: w.keep(src), Engine: "breaking", Size: len(src)})
		}
		r.Active = r.Retained[0]
		r.Settings.Rollout = script.Plan{MaxErrorIncrease: new(1.0)}
		r.Candidate = &script.Candidate{Version: r.Retained[1], Attempt: 1, Step: 1}
		change(&r)
		w.pool.Committed([]script.Object{{Release: &r}}, nil)
		live := cache.NewReleaseOn(script.Agent{}, r)
		w.table.Update([]*cache.Release{live}, nil)
		return live
	}
	live := commit(func(r *script.Release) { r.Candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(50)) })
	in, out := "", ""
	for i := 0; in == "" || out == ""; i++ {
		if key := fmt.Sprint(i); live.For(key) == live {
			out = key
		} else {
			in = key
		}
	}
	call := func(key string) (string, error) {
		var reply gateway.Reply
		if err := w.router.Execute(t.Context(), &gateway.Call{Script: name.String(), Key: key}, &reply); err != nil {
			return "", err
		}
		return string(reply.Value(0)), nil
	}
	answers := func(key string) {
		t.Helper()
		var last error
		if !w.until(func() bool {
			got, err := call(key)
			last = err
			return got == `"one of route"`
		}) {
			t.Fatalf("key %s: %v", key, last)
		}
	}
	for range 2 {
		answers(out)
		if got, err := call(in); err == nil {
			t.Fatalf("the candidate answers %s", got)
		}
		if !w.until(live.Split.Calls.Ended) {
			t.Fatal("the candidate has not lost its process")
		}
	}
	if !w.until(func() bool { return len(w.pool.Quarantined()) == 1 }) {
		t.Fatal("what ends the process each time is not in quarantine")
	}
	if _, failed := live.Split.Calls.Read(); failed == 0 {
		t.Error("no call of the candidate has failed")
	}
	commit(func(r *script.Release) { r.Candidate.Failed = "the agent is lost" })
	answers(in)
	answers(out)
	if q := w.pool.Quarantined(); len(q) != 0 {
		t.Errorf("in quarantine: %v", q)
	}
}
