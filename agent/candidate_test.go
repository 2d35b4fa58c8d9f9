package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/trial"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// everywhere is the share of all agents, but for one in four billions.
const everywhere = 1<<32 - 1

// share that has, or has not, the agent among it.
func shareWith(name string, is bool) uint32 {
	bucket := script.Bucket("node-1", script.Name{Tenant: "acme", Script: name})
	if is {
		return bucket + 1
	}
	return bucket
}

// expecting is the test that the script answers so.
func expecting(want string) []script.Test {
	return []script.Test{{Name: "answer", Expect: []byte(want)}}
}

// offer publishes a version that is the script's candidate, also if it is its first.
func (r *registry) offer(name, source string, change func(*script.Release)) {
	r.revise(name, func(rel *script.Release) {
		rel.Latest++
		v := script.Version{Number: rel.Latest, Digest: script.DigestOf([]byte(source)), Engine: "echo", Size: len(source)}
		r.sources[v.Digest] = []byte(source)
		rel.Retained = append(slices.Clone(rel.Retained), v)
		if rel.Active.Number == 0 {
			rel.Active, rel.Enabled = v, true
		}
		rel.Candidate = &script.Candidate{Version: v, Attempt: uint64(rel.Revision)}
		if change != nil {
			change(rel)
		}
	})
}

// revise changes a release, and gives it a revision.
func (r *registry) revise(name string, change func(*script.Release)) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head++
	rel := r.releases["acme/"+name]
	rel.Name, rel.Revision = script.Name{Tenant: "acme", Script: name}, script.Revision(r.head)
	if c := rel.Candidate; c != nil {
		rel.Candidate = new(*c)
	}
	change(&rel)
	if rel.Candidate != nil { // an older registry has one for the whole script
		rel.Candidate.Spec = rel.Settings.Spec
	}
	r.releases["acme/"+name] = rel
	r.announce(script.Object{Release: &rel}, r.sources[rel.Active.Digest])
}

// advance changes a candidate.
func (r *registry) advance(name string, change func(*script.Candidate)) {
	r.revise(name, func(rel *script.Release) { change(rel.Candidate) })
}

// reports are the statuses of agents.
type reports struct {
	mu   sync.Mutex
	last *eventv1.Status
}

func listen(t *testing.T, r *registry) *reports {
	t.Helper()
	all := &reports{}
	_, err := r.conn.Subscribe(subjects.Status("*"), func(m *nats.Msg) {
		s := &eventv1.Status{}
		if err := seal.ReadStatus(m.Data, s); err != nil {
			t.Errorf("a status: %v", err)
			return
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		all.last = s
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return all
}

// trial returns what the last status tells of the script's candidate: "2/5 passed 3-1", or
// "".
func (all *reports) trial(name string) string {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, m := range all.last.GetTrials() {
		if m.GetKey() != "releases/acme/"+name {
			continue
		}
		said := "runs"
		switch e := m.GetError(); {
		case e != nil:
			said = e.GetKind() + " " + e.GetField() + ": " + e.GetMessage()
		case m.GetTested():
			said = "passed"
		}
		return fmt.Sprintf("%d/%d %s %d-%d", m.GetVersion(), m.GetAttempt(), said, m.GetCalls(), m.GetFailedCalls())
	}
	return ""
}

// disk returns how the last status says the disk is.
func (all *reports) disk() *eventv1.Disk {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.last.GetDisk()
}

func (all *reports) want(t *testing.T, r *registry, name, want string) {
	t.Helper()
	var got string
	defer func() {
		if got != want {
			t.Logf("the status reports %s as %q, want %q", name, got, want)
		}
	}()
	eventually(t, r, "a status tells of "+name+": "+want, func() bool { got = all.trial(name); return got == want })
}

func (n *node) is(t *testing.T, ref, want string) {
	t.Helper()
	if got, err := n.call(t, ref); err != nil || got != want {
		t.Errorf("%s answers %q, %v; want %s", ref, got, err, want)
	}
}

// The whole way of a candidate on one agent.
func TestACandidate(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `1`)
	r.start()
	told := listen(t, r)
	n := startNode(t, r, t.TempDir())
	n.answers(t, r, "acme/route", `1`)

	r.offer("route", `2`, func(rel *script.Release) { rel.Settings.Tests = expecting(`2.0`) })
	attempt := r.releases["acme/route"].Candidate.Attempt
	told.want(t, r, "route", fmt.Sprintf("2/%d passed 0-0", attempt))
	n.is(t, "acme/route", `1`)
	n.is(t, "acme/route@2", `2`)

	// A share without this agent changes nothing here.
	r.advance("route", func(c *script.Candidate) { c.Step, c.Threshold = 1, shareWith("route", false) })
	r.publish("marker", `"1"`)
	n.answers(t, r, "acme/marker", `"1"`)
	n.is(t, "acme/route", `1`)

	r.advance("route", func(c *script.Candidate) { c.Step, c.Threshold = 2, shareWith("route", true) })
	n.answers(t, r, "acme/route", `2`)
	n.is(t, "acme/route", `2`)
	n.is(t, "acme/route@1", `1`)
	if list := n.Executor().List(); list[1].Active.Number != 2 {
		t.Errorf("listed is %+v", list[1])
	}
	told.want(t, r, "route", fmt.Sprintf("2/%d passed 2-0", attempt))
	// The next step goes on counting; the tests are not run again.
	r.advance("route", func(c *script.Candidate) { c.Step, c.Threshold = 3, everywhere })
	r.publish("marker", `"2"`)
	n.answers(t, r, "acme/marker", `"2"`)
	n.is(t, "acme/route", `2`)
	told.want(t, r, "route", fmt.Sprintf("2/%d passed 3-0", attempt))

	r.revise("route", func(rel *script.Release) { rel.Active, rel.Candidate = rel.Candidate.Version, nil })
	told.want(t, r, "route", "")
	n.is(t, "acme/route", `2`)
	eventually(t, r, "nothing has drifted", func() bool {
		told.mu.Lock()
		defer told.mu.Unlock()
		return told.last.GetActivatedRevision() >= r.head && told.last.GetDrifts() == 0
	})
}

func TestACandidateThatFails(t *testing.T) {
	r := newRegistry(t)
	for _, name := range []string{"wrong", "broken", "fails", "calls"} {
		r.publish(name, `1`)
	}
	r.start()
	told := listen(t, r)
	n := startNode(t, r, t.TempDir())
	n.answers(t, r, "acme/calls", `1`)
	for name, c := range map[string]struct{ source, want string }{
		"wrong":  {`{"a":3}`, `SCRIPT tests[answer]: want {"a":2}, got {"a":3}`},
		"broken": {`bad`, `SCRIPT tests[answer]: acme/broken@2 cannot be run now: does not compile`},
		"fails":  {`fail`, `SCRIPT tests[answer]: it fails`},
	} {
		r.offer(name, c.source, func(rel *script.Release) { rel.Settings.Tests = expecting(`{"a":2}`) })
		attempt := r.releases["acme/"+name].Candidate.Attempt
		told.want(t, r, name, fmt.Sprintf("2/%d %s 0-0", attempt, c.want))
		n.is(t, "acme/"+name, `1`)
	}

	// Another attempt is tested anew.
	r.revise("wrong", func(rel *script.Release) {
		rel.Candidate.Attempt, rel.Settings.Tests = uint64(r.head), expecting(`{"a":3}`)
	})
	told.want(t, r, "wrong", fmt.Sprintf("2/%d passed 0-0", r.head))

	// Without tests, calls tell.
	r.offer("calls", `fail at a call`, func(rel *script.Release) { rel.Candidate.Threshold = everywhere })
	attempt := r.releases["acme/calls"].Candidate.Attempt
	eventually(t, r, "the candidate runs", func() bool { _, err := n.call(t, "acme/calls"); return err != nil })
	told.want(t, r, "calls", fmt.Sprintf("2/%d runs 1-1", attempt))
	r.advance("calls", func(c *script.Candidate) { c.Threshold, c.Failed = 0, "1 of 1 calls failed" })
	n.answers(t, r, "acme/calls", `1`)
	told.want(t, r, "calls", "")
}

// One that does not compile where it is to run does not go live, and what was live stays.
func TestABrokenCandidate(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `1`)
	r.start()
	told := listen(t, r)
	n := startNode(t, r, t.TempDir())
	n.answers(t, r, "acme/route", `1`)
	r.offer("route", `bad`, nil)
	r.advance("route", func(c *script.Candidate) { c.Step, c.Threshold = 1, shareWith("route", true) })
	at := r.head
	eventually(t, r, "it is reported", func() bool {
		told.mu.Lock()
		defer told.mu.Unlock()
		failures := told.last.GetFailures()
		return len(failures) == 1 && failures[0].GetRevision() == at && strings.Contains(failures[0].GetError().GetMessage(), "does not compile")
	})
	n.is(t, "acme/route", `1`)
	r.advance("route", func(c *script.Candidate) { c.Threshold, c.Failed = 0, "node-1: it does not compile" })
	eventually(t, r, "it is over", func() bool {
		told.mu.Lock()
		defer told.mu.Unlock()
		return len(told.last.GetFailures()) == 0 && told.last.GetActivatedRevision() == r.head
	})
	n.is(t, "acme/route", `1`)
}

func TestAScriptThatIsUntried(t *testing.T) {
	r := newRegistry(t)
	r.start()
	told := listen(t, r)
	dir := t.TempDir()
	n := startNode(t, r, dir)
	r.offer("good", `2`, func(rel *script.Release) { rel.Settings.Tests = expecting(`2`) })
	r.offer("wrong", `3`, func(rel *script.Release) { rel.Settings.Tests = expecting(`2`) })
	r.offer("off", `2`, func(rel *script.Release) { rel.Settings.Tests, rel.Enabled = expecting(`2`), false })
	refused := func(ref, want string) {
		t.Helper()
		if got, err := n.call(t, ref); script.KindOf(err) != script.Disabled || !strings.Contains(err.Error(), want) {
			t.Errorf("%s answers %q, %v", ref, got, err)
		}
	}
	passed := fmt.Sprintf("1/%d passed 0-0", r.releases["acme/good"].Candidate.Attempt)
	failed := fmt.Sprintf("1/%d SCRIPT tests[answer]: want 2, got 3 0-0", r.releases["acme/wrong"].Candidate.Attempt)
	told.want(t, r, "good", passed)
	told.want(t, r, "wrong", failed)
	told.want(t, r, "off", fmt.Sprintf("1/%d passed 0-0", r.releases["acme/off"].Candidate.Attempt))
	refused("acme/good", "is being tested")
	refused("acme/good@1", "is being tested")
	refused("acme/off", "is disabled")
	n.stop()

	// From disk: the same, and tested anew.
	told.mu.Lock()
	told.last = nil
	told.mu.Unlock()
	n = startNode(t, r, dir)
	refused("acme/good", "is being tested")
	told.want(t, r, "good", passed)
	told.want(t, r, "wrong", failed)

	r.advance("wrong", func(c *script.Candidate) { c.Failed = "node-1: tests[answer]: want 2, got 3" })
	eventually(t, r, "why it does not run", func() bool {
		_, err := n.call(t, "acme/wrong@1")
		return script.KindOf(err) == script.Disabled && strings.Contains(err.Error(), "want 2, got 3")
	})
	r.revise("good", func(rel *script.Release) { rel.Candidate = nil })
	n.answers(t, r, "acme/good", `2`)
}

// An agent that starts with everything down runs what it is to run, and has tested it.
func TestACandidateFromDisk(t *testing.T) {
	r := newRegistry(t)
	r.publish("route", `1`)
	r.start()
	dir := t.TempDir()
	n := startNode(t, r, dir)
	n.answers(t, r, "acme/route", `1`)
	r.offer("route", `2`, func(rel *script.Release) { rel.Candidate.Threshold = everywhere })
	n.answers(t, r, "acme/route", `2`)
	n.stop()
	r.stop()
	n = startNode(t, r, dir)
	n.is(t, "acme/route", `2`)
	n.is(t, "acme/route@1", `1`)
	n.stop()
	// Under another name it is another agent.
	n = startNode(t, r, dir, func(cfg *agent.Config) { cfg.Name = outsider(everywhere / 2) })
	n.is(t, "acme/route", `2`)
}

// outsider returns the name of an agent that is among the share.
func outsider(share uint32) string {
	for i := range 1000 {
		if name := fmt.Sprint("other-", i); script.Bucket(name, script.Name{Tenant: "acme", Script: "route"}) < share {
			return name
		}
	}
	panic("a share that nobody is among")
}

// A script that is in quarantine is not a failure of a candidate that has not run here.
func TestWhatIsInTrouble(t *testing.T) {
	version := func(n uint64) script.Version {
		return script.Version{Number: n, Digest: script.DigestOf([]byte{byte(n)})}
	}
	for name, c := range map[string]struct {
		candidate *script.Candidate
		want      script.Revision
	}{
		"no candidate":               {nil, 7},
		"one that does not run":      {&script.Candidate{Version: version(2)}, 6},
		"one that runs":              {&script.Candidate{Version: version(2), Threshold: everywhere}, 7},
		"one that was given up":      {&script.Candidate{Version: version(2), Failed: "aborted"}, 7},
		"the first, which is tested": {&script.Candidate{Version: version(1)}, 7},
	} {
		live := cache.NewReleaseOn(script.Agent{Name: "node-1"}, script.Release{Revision: 7, Active: version(1), Candidate: c.candidate})
		if got := agent.Troubled(live, worker.Quarantined{Revision: 5}); got != c.want {
			t.Errorf("%s: revision %d is in trouble, want %d", name, got, c.want)
		}
	}
	if got := agent.Troubled(nil, worker.Quarantined{Revision: 5}); got != 5 {
		t.Errorf("of a script that is gone, revision %d is in trouble", got)
	}
}

// TestWhatIsToldFirst: a status lists first what a rollout waits for, as it has no room for all.
func TestWhatIsToldFirst(t *testing.T) {
	failed := script.Errorf(script.Script, "tests[t]", "no")
	var candidates []*cache.Release
	var results []trial.Result
	for name, c := range map[string]struct {
		step   int
		share  uint32
		result *trial.Result
	}{
		"5 given up":       {result: &trial.Result{Tested: true, GivenUp: true}},
		"4 being tested":   {result: &trial.Result{}},
		"3 steps":          {step: 2, result: &trial.Result{Tested: true}},
		"3 steps, it runs": {step: 2, share: everywhere, result: &trial.Result{Tested: true}},
		"3 without tests":  {step: 1, share: everywhere},
		"2 passed":         {result: &trial.Result{Tested: true}},
		"1 came later":     {step: 1, result: &trial.Result{Tested: true, Err: failed}},
		"0 nothing":        {step: 1},
	} {
		n := script.Name{Tenant: "acme", Script: name}
		candidates = append(candidates, cache.NewReleaseOn(script.Agent{Name: "node-1"}, script.Release{
			Name: n, Active: script.Version{Number: 1}, Candidate: &script.Candidate{Version: script.Version{Number: 2}, Step: c.step, Threshold: c.share},
		}))
		if c.result != nil {
			c.result.Script, c.result.Version = n, 2
			results = append(results, *c.result)
		}
	}
	var order []string
	for _, told := range agent.InOrder(candidates, results) {
		order = append(order, strings.TrimPrefix(told.Key, "releases/acme/"))
	}
	want := []string{"1 came later", "2 passed", "3 steps", "3 steps, it runs", "3 without tests", "4 being tested", "5 given up"}
	if !slices.Equal(order, want) {
		t.Errorf("told are %q, want %q", order, want)
	}
}
