package worker_test

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

// candidateOf makes a release of acme/route live as the agent "node-1" does: the last of
// the sources is the candidate.
func (w *world) candidateOf(language string, change func(*script.Release), sources ...string) *cache.Release {
	w.revision++
	r := script.Release{Name: script.Name{Tenant: "acme", Script: "route"}, Revision: w.revision, Enabled: true}
	r.Settings.Limits.Timeout = 10 * time.Second
	for i, src := range sources {
		v := script.Version{Number: uint64(i + 1), Digest: w.keep(src), Engine: language, Size: len(src)}
		if language == "lua" {
			v.Entrypoint = "handle"
		}
		r.Retained = append(r.Retained, v)
	}
	r.Active = r.Retained[0]
	r.Candidate = &script.Candidate{Version: r.Retained[len(r.Retained)-1], Spec: r.Settings.Spec, Attempt: 4}
	if change != nil {
		change(&r)
	}
	live := cache.NewReleaseOn(script.Agent{Name: "node-1"}, r)
	w.commit([]script.Object{{Release: &r}})
	w.table.Update([]*cache.Release{live}, nil)
	return live
}

func onNode1(cfg *worker.Config) { cfg.Node.Agent.Name = "node-1" }

func (w *world) try(ref string, args ...string) (string, error) {
	call := &gateway.Call{Script: ref}
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	var reply gateway.Reply
	if err := w.pool.TrialRouter(w.router).Execute(w.tb.Context(), call, &reply); err != nil {
		return "", err
	}
	return string(reply.Value(0)), nil
}

// A tenant's process runs what its agent runs, and its calls are counted wherever they
// come in.
func TestAProcessRunsTheCandidate(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	old, new := `function handle(a) return "old " .. a end`, `function handle(a) if a == "x" then error("no") end return "new " .. a end`
	bucket := script.Bucket("node-1", script.Name{Tenant: "acme", Script: "route"})
	increase := 1.0
	compare := func(threshold uint32) func(*script.Release) {
		return func(r *script.Release) {
			r.Candidate.Threshold, r.Candidate.Step, r.Settings.Rollout.MaxErrorIncrease = threshold, 1, &increase
		}
	}
	live := w.candidateOf("lua", compare(bucket), old, new)
	if got := w.answer("acme/route", `"a"`); got != `"old a"` {
		t.Errorf("outside the share it answers %s", got)
	}
	var step *script.StepCalls
	if !w.until(func() bool { step = live.StepCalls.Read(); return step != nil }) || step.Calls() != 1 || step.FailedCalls != 0 || step.Step != 1 {
		t.Errorf("of the active version %+v are counted, want one call", step)
	}
	live = w.candidateOf("lua", compare(bucket+1), old, new)
	if got := w.answer("acme/route", `"a"`); got != `"new a"` {
		t.Errorf("within the share it answers %s", got)
	}
	if _, err := w.call("acme/route", `"x"`); script.KindOf(err) != script.Script {
		t.Errorf("a call that fails: %v", err)
	}
	_, _ = w.try("acme/route@2", `"a"`)
	_, _ = w.call("acme/route@1", `"a"`)
	c, err := net.Dial("unix", w.socket("acme", "resp"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := fcall(c, bufio.NewReader(c), "acme/route", `"b"`); err != nil || !strings.Contains(got, "new b") {
		t.Errorf("over the tenant's own socket it answers %s, %v", got, err)
	}
	var calls, failed uint64
	if !w.until(func() bool { calls, failed = live.Calls.Read(); return calls >= 3 }) || calls != 3 || failed != 1 {
		t.Errorf("%d calls and %d failed ones are counted, want 3 and 1", calls, failed)
	}
	counted := func() bool { // the agent adds those of the step after the calls, one by one
		step = live.StepCalls.Read()
		return step != nil && step.Calls() >= 3 && step.FailedCalls >= 1
	}
	if !w.until(counted) || step.Calls() != 3 || step.FailedCalls != 1 {
		t.Errorf("of the candidate's step %+v are counted, want three calls", step)
	}

	// Another process starts from the same.
	kill(t, w.pid("acme"))
	if got := w.answer("acme/route", `"a"`); got != `"new a"` {
		t.Errorf("the next process answers %s", got)
	}
	if !w.until(func() bool { calls, _ = live.Calls.Read(); return calls >= 4 }) {
		t.Errorf("%d calls are counted after another process came", calls)
	}
}

// endsAlone tries the candidate of acme/route, which ends the process. On a busy machine a new
// process may still be compiling what its tenant calls: then the agent tries again, too.
func (w *world) endsAlone(what string) {
	w.tb.Helper()
	var err error
	if !w.until(func() bool {
		_, err = w.try("acme/route@2")
		return !errors.Is(err, worker.ErrEnded) || errors.Is(err, worker.ErrEndedAlone)
	}) || !errors.Is(err, worker.ErrEndedAlone) || script.KindOf(err) != script.Unavailable {
		w.tb.Errorf("%s: %v", what, err)
	}
}

func TestTrialsInAProcess(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	w.publish("lua", "acme/up", `function handle() return "up" end`)
	w.answer("acme/up")
	source := `function handle(a) return a end`
	for name, change := range map[string]func(*script.Release){
		"disabled": func(r *script.Release) { r.Enabled = false },
		"untried":  func(r *script.Release) { r.Active = r.Candidate.Version },
	} {
		w.candidateOf("lua", change, source, source+" ")
		if got, err := w.try("acme/route@2", `"a"`); err != nil || got != `"a"` {
			t.Errorf("%s: a test answers %s, %v", name, got, err)
		}
		if _, err := w.call("acme/route@2", `"a"`); script.KindOf(err) != script.Disabled {
			t.Errorf("%s: a call: %v", name, err)
		}
	}
	w.candidateOf("breaking", nil, "fine", "overflow")
	for range 4 { // the version that is active is not to blame, however often
		w.endsAlone("a test that ends the process")
		if got := w.answer("acme/route"); !strings.Contains(got, "fine") {
			t.Errorf("the version that is active answers %s", got)
		}
	}
	w.candidateOf("breaking", nil, "fine", uncompilable)
	for range 4 {
		w.endsAlone("a test that ends the process as it is compiled")
		if got := w.answer("acme/route"); !strings.Contains(got, "fine") {
			t.Errorf("the version that is active answers %s", got)
		}
	}
	if list := w.pool.Quarantined(); len(list) != 0 {
		t.Errorf("in quarantine: %+v", list)
	}
}

// A version that kills the process is mended by the next, which can be tested although the
// script is in quarantine, and ends that once it runs.
func TestACandidateThatMends(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	w.publish("breaking", "acme/good", "fine")
	w.answer("acme/good")
	none := func(r *script.Release) { r.Candidate = nil }
	w.candidateOf("breaking", none, "overflow")
	for range 3 {
		_, _ = w.call("acme/route")
		w.answer("acme/good")
	}
	refused := func() bool {
		_, err := w.call("acme/route")
		return script.KindOf(err) == script.Unavailable && strings.Contains(err.Error(), "quarantine")
	}
	if !refused() {
		t.Fatal("it is not in quarantine")
	}
	bucket := script.Bucket("node-1", script.Name{Tenant: "acme", Script: "route"})
	w.candidateOf("breaking", func(r *script.Release) { r.Candidate.Threshold = bucket }, "overflow", "mended")
	if !refused() || len(w.pool.Quarantined()) != 1 {
		t.Error("a candidate that does not run here has ended the quarantine")
	}
	if got, err := w.try("acme/route@2"); err != nil || got != `"mended of route"` {
		t.Errorf("its test answers %s, %v", got, err)
	}
	w.candidateOf("breaking", func(r *script.Release) { r.Candidate.Threshold = bucket + 1 }, "overflow", "mended")
	if got := w.answer("acme/route"); got != `"mended of route"` || len(w.pool.Quarantined()) != 0 {
		t.Errorf("where it runs it answers %s, in quarantine: %+v", got, w.pool.Quarantined())
	}
}

// A call that ends the process counts as one that failed.
func TestACandidateThatEndsTheProcess(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	w.publish("breaking", "acme/good", "fine")
	w.answer("acme/good")
	live := w.candidateOf("breaking", func(r *script.Release) { r.Candidate.Threshold = 1<<32 - 1 }, "fine", "overflow")
	if live.Calls.Ended() {
		t.Error("the process is said to have ended")
	}
	for range 2 {
		_, _ = w.call("acme/route")
		w.answer("acme/good")
	}
	if !w.until(func() bool { calls, _ := live.Calls.Read(); return calls >= 2 }) {
		t.Error("they are not counted")
	}
	if calls, failed := live.Calls.Read(); calls != 2 || failed != 2 || !live.Calls.Ended() {
		t.Errorf("%d calls and %d failed ones are counted, want 2; the process ended: %t", calls, failed, live.Calls.Ended())
	}
}

// TestWhoLostTheProcess: a candidate that another script of its tenant ended the process of is not
// told of it; one whose process ended for no reason that is known is.
func TestWhoLostTheProcess(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	w.publish("breaking", "acme/bad", "overflow")
	live := w.candidateOf("breaking", func(r *script.Release) { r.Candidate.Threshold = 1<<32 - 1 }, "fine", "fine ")
	w.answer("acme/route")
	_, _ = w.call("acme/bad")
	w.answer("acme/route")
	if live.Calls.Ended() {
		t.Error("another script ended it")
	}
	kill(t, w.pid("acme"))
	w.answer("acme/route")
	if !w.until(live.Calls.Ended) {
		t.Error("it was killed while it waited for calls")
	}
}

// A process that another replaces tells of its calls first.
func TestCountsOfAProcessThatRetires(t *testing.T) {
	w := newWorld(t, onNode1, walled("acme"))
	source := `function handle(a) return a end`
	live := w.candidateOf("lua", func(r *script.Release) { r.Candidate.Threshold = 1<<32 - 1 }, source, source+" ")
	w.answer("acme/route", `1`)
	w.answer("acme/route", `1`)
	acme := walled("acme")
	acme.Revision, acme.Settings.MemoryBytes = 1000, 200<<20
	w.commit([]script.Object{{Tenant: &acme}})
	var calls uint64
	if !w.until(func() bool { calls, _ = live.Calls.Read(); return calls >= 2 }) {
		t.Errorf("%d calls are counted", calls)
	}
}
