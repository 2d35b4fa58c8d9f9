package controller

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// began is when the candidates of these tests came into their step.
var began = time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)

// trying is release, with version 4 on its way through tests and two steps.
func trying(edit func(*script.Candidate)) *script.Release {
	r := release()
	v := script.Version{Number: 4, Digest: script.DigestOf([]byte{4})}
	r.Latest, r.Retained = 4, append(r.Retained, v)
	r.Settings.Rollout.Steps = []script.Step{{Percent: 10, Pause: 5 * time.Minute}, {Percent: 50}}
	r.Candidate = &script.Candidate{Version: v, Spec: r.Settings.Spec, Attempt: 12, Since: began, Running: began}
	r.Candidate.Spec.Tests = []script.Test{{Name: "alpha"}, {Name: "beta"}}
	if edit != nil {
		edit(r.Candidate)
	}
	return r
}

// untried is a release whose first version is on its way.
func untried(failed string) *script.Release {
	r := trying(func(c *script.Candidate) { c.Failed = failed })
	r.Active, r.Retained, r.Settings.Rollout = r.Candidate.Version, r.Retained[2:], script.Plan{}
	return r
}

func inStep(n int) func(*script.Candidate) {
	return func(c *script.Candidate) { c.Step, c.Percent, c.Threshold = n, []int{10, 50}[n-1], 1<<28 }
}

// byZone is trying without tests, by zones, and in the step.
func byZone(step int) *script.Release {
	r := trying(func(c *script.Candidate) { c.Step, c.Spec.Tests, c.Running = step, nil, time.Time{} })
	r.Settings.Rollout.Steps = []script.Step{{Percent: 10, Selector: "zone=a"}, {Selector: "rack=7,zone=b"}}
	return r
}

// counting has the release's candidate be given up if calls of it fail.
func counting(r *script.Release) *script.Release {
	r.Settings.Rollout.MaxErrorPercent = new(5.0)
	return r
}

// tried is what the fleet says of such a release.
func tried(r *script.Release, edit func(*registryclient.ScriptStatus)) *registryclient.ScriptStatus {
	s := &registryclient.ScriptStatus{Release: *r, Desired: 3, Active: 2, Unknown: 1, Trials: &registryclient.Trials{Passed: 1}}
	if r.Untried() {
		s.Active = 0
	}
	if edit != nil {
		edit(s)
	}
	return s
}

// TestCandidate: what the status says while a version is on its way.
func TestCandidate(t *testing.T) {
	const long = "node-1: tests[beta]: want 1, got 2"
	testing4 := &v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateTesting, Steps: 2}
	failed := trying(func(c *script.Candidate) { c.Failed = long })
	frozen := func(c *script.Candidate) { c.Frozen = `by ann ("incident 12")` }
	tests := []struct {
		name    string
		release *script.Release
		agent   *registryclient.ScriptStatus
		lost    bool // the fleet is not known
		at      time.Duration
		phase   v1alpha1.Phase
		reason  string
		says    string
		active  int64 // version
		summary string
		want    v1alpha1.CandidateStatus
	}{
		{
			name: "tested", release: trying(nil), agent: tried(trying(nil), nil),
			phase: v1alpha1.PhasePending, reason: "Testing", active: 3, summary: "2/3",
			says: "version 4 is being tested: 1 of 2 agents have passed; version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateTesting, Steps: 2, Passed: 1},
		},
		{
			name: "the fleet tells of the release before", release: trying(nil), agent: told(func(s *registryclient.ScriptStatus) { s.Release.Revision = 11 }),
			phase: v1alpha1.PhasePending, reason: "Testing", active: 3, summary: "2/2",
			says: "version 4 is being tested; version 3 goes on", want: *testing4,
		},
		{
			name: "the fleet does not know the script yet", release: trying(nil),
			phase: v1alpha1.PhasePending, reason: "Testing", active: 3, says: "version 4 is being tested; version 3 goes on", want: *testing4,
		},
		{
			name: "the fleet is not known", release: trying(nil), lost: true,
			phase: v1alpha1.PhasePending, reason: "FleetUnknown", active: 3, says: "what the agents run is not known now", want: *testing4,
		},
		{
			name: "no agents", release: trying(nil), agent: tried(trying(nil), func(s *registryclient.ScriptStatus) { s.Desired, s.Active, s.Unknown, s.Trials.Passed = 0, 0, 0, 0 }),
			phase: v1alpha1.PhasePending, reason: "NoAgents", active: 3, summary: "0/0", says: "no agent follows the tenant acme", want: *testing4,
		},
		{
			name: "a test failed on an agent, and the registry has yet to draw the line", release: trying(nil),
			agent: tried(trying(nil), func(s *registryclient.ScriptStatus) {
				s.Failed, s.Trials.Failed = 1, 1
				s.Failures = []registryclient.AgentFailure{{Agent: "node-1", Err: script.Errorf(script.Script, "tests[beta]", "want 1, got 2")}}
			}),
			phase: v1alpha1.PhasePending, reason: "Testing", active: 3, summary: "2/3", says: "1 of 2 agents have passed",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateTesting, Steps: 2, Passed: 1},
		},
		{
			name: "it waits for the thaw", release: trying(frozen), lost: true,
			phase: v1alpha1.PhaseHeld, reason: "Frozen", active: 3,
			says: "version 4 is stored, and does not run: frozen by ann (\"incident 12\"): scriptctl thaw; version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateFrozen, Steps: 2},
		},
		{
			name: "its step goes on until the thaw", release: trying(inStep(1)),
			agent: tried(trying(inStep(1)), func(s *registryclient.ScriptStatus) { s.Trials.Why = script.WaitsForThaw + "by ann" }),
			phase: v1alpha1.PhaseHeld, reason: "Frozen", active: 3, summary: "2/3",
			says: "version 4 goes no further: the registry is frozen by ann; version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10, Passed: 1},
		},
		{
			name: "an agent has not said yet that it passed", release: trying(nil),
			agent: tried(trying(nil), func(s *registryclient.ScriptStatus) {
				s.Trials.Waiting, s.Trials.WaitingFor = 1, []string{"node-7"}
			}),
			phase: v1alpha1.PhasePending, reason: "Testing", active: 3, summary: "2/3",
			says: "version 4 is being tested: 1 of 2 agents have passed, waiting for node-7; version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateTesting, Steps: 2, Passed: 1},
		},
		{
			name: "agents are waited for in its step, one for a reason", release: trying(inStep(1)), at: time.Minute,
			agent: tried(trying(inStep(1)), func(s *registryclient.ScriptStatus) {
				s.Trials.Waiting, s.Trials.WaitingFor = 4, []string{"node-7", "node-8", "node-9"}
				s.Trials.WaitingWhy = "disk: it is full"
			}),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "until 2026-11-21T14:05:00Z, waiting for node-7 (disk: it is full) and 3 more; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10, Passed: 1},
		},
		{
			name: "before the first step, without tests",
			release: func() *script.Release {
				r := trying(nil)
				r.Candidate.Spec.Tests = nil
				return r
			}(),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3,
			says: "version 4 is about to run on the agents of step 1 of 2; version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Steps: 2},
		},
		{
			name: "before the step of a zone", release: byZone(0), agent: tried(byZone(0), func(s *registryclient.ScriptStatus) { s.Trials.Passed = 2 }),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is about to run on 10 % of the agents with zone=a of step 1 of 2; version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Steps: 2, Passed: 2},
		},
		{
			name: "in the step of a zone", release: byZone(2), agent: tried(byZone(2), nil),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is to run on the agents with rack=7,zone=b (step 2 of 2), and goes on when each agent is well with it; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 2, Steps: 2, Selector: "rack=7,zone=b", Passed: 1},
		},
		{
			name: "in its first step", release: trying(inStep(1)), at: time.Minute,
			agent: tried(trying(inStep(1)), func(s *registryclient.ScriptStatus) {
				s.Active, s.Trials = 1, &registryclient.Trials{Passed: 2, Running: 1, Calls: 40, FailedCalls: 2}
			}),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "1/3",
			says: "version 4 runs on 1 of 2 agents (step 1 of 2) until 2026-11-21T14:05:00Z; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10, Passed: 2, Running: 1, Calls: 40, FailedCalls: 2},
		},
		{
			name: "no agent has begun its step", release: trying(inStep(1)), agent: tried(trying(inStep(1)), nil),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is to run on 10 % of the agents (step 1 of 2) until 2026-11-21T14:05:00Z; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10, Passed: 1},
		},
		{
			name: "the fleet has yet to tell of its step", release: trying(inStep(1)),
			agent: tried(trying(nil), func(s *registryclient.ScriptStatus) { s.Release.Revision, s.Trials.Running = 11, 1 }),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is to run on 10 % of the agents (step 1 of 2) until 2026-11-21T14:05:00Z",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10},
		},
		{
			name: "a step without a pause", release: trying(inStep(2)),
			agent: tried(trying(inStep(2)), func(s *registryclient.ScriptStatus) {
				s.Trials.Why = "0 of 2 agents have taken the last change, and 2 must"
			}),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is to run on 50 % of the agents (step 2 of 2), and goes on when each agent is well with it; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 2, Steps: 2, Percent: 50, Passed: 1},
		},
		{
			name: "a step without a pause, in which calls are counted", release: counting(trying(inStep(2))), agent: tried(trying(inStep(2)), nil),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is to run on 50 % of the agents (step 2 of 2) until 2026-11-21T14:00:10Z; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 2, Steps: 2, Percent: 50, Passed: 1},
		},
		{
			name: "its step should be over", release: trying(inStep(2)), at: time.Minute,
			agent: tried(trying(inStep(2)), func(s *registryclient.ScriptStatus) { s.Active, s.Trials.Running = 0, 2 }),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "0/3",
			says: "version 4 runs on 2 of 2 agents (step 2 of 2), and goes on when each agent is well with it; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 2, Steps: 2, Percent: 50, Passed: 1, Running: 2},
		},
		{
			name: "the gate of its step says no", release: trying(inStep(1)), at: 10 * time.Minute,
			agent: tried(trying(inStep(1)), func(s *registryclient.ScriptStatus) {
				s.Trials.Running, s.Trials.Why = 1, "gate prometheus/main: the value is 0.03, want at most 0.01"
			}),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 runs on 1 of 2 agents (step 1 of 2), and waits: gate prometheus/main: the value is 0.03, want at most 0.01; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10, Passed: 1, Running: 1},
		},
		{
			name: "its pause goes on", release: trying(inStep(1)), at: time.Minute,
			agent: tried(trying(inStep(1)), func(s *registryclient.ScriptStatus) {
				s.Trials.Running, s.Trials.Why = 1, "the pause of step 1 goes on"
			}),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 runs on 1 of 2 agents (step 1 of 2) until 2026-11-21T14:05:00Z; version 3 goes on elsewhere",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Step: 1, Steps: 2, Percent: 10, Passed: 1, Running: 1},
		},
		{
			name: "another script is to be live first", release: byZone(0),
			agent: tried(byZone(0), func(s *registryclient.ScriptStatus) {
				s.Trials.Why = "version 2 of acme/lib is not live yet (rollout.after)"
			}),
			phase: v1alpha1.PhasePending, reason: "RollingOut", active: 3, summary: "2/3",
			says: "version 4 is about to run on 10 % of the agents with zone=a of step 1 of 2: version 2 of acme/lib is not live yet (rollout.after); version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateRollingOut, Steps: 2, Passed: 1},
		},
		{
			name: "its tests passed, and another script is to be live first", release: trying(nil),
			agent: tried(trying(nil), func(s *registryclient.ScriptStatus) {
				s.Trials.Passed, s.Trials.Why = 2, "version 2 of acme/lib is not live yet (rollout.after)"
			}),
			phase: v1alpha1.PhasePending, reason: "Testing", active: 3, summary: "2/3",
			says: "version 4 is being tested: 2 of 2 agents have passed, and it waits: version 2 of acme/lib is not live yet (rollout.after); version 3 goes on",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateTesting, Steps: 2, Passed: 2},
		},
		{
			name: "given up", release: failed, agent: tried(failed, func(s *registryclient.ScriptStatus) { s.Failed = 1 }),
			phase: v1alpha1.PhaseError, reason: "CandidateFailed", active: 3, summary: "2/3",
			says: "version 4 was given up: " + long + "; version 3 goes on; change the script or its tests",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateFailed, Steps: 2, Passed: 1, Reason: long},
		},
		{
			name: "given up, and the fleet is not known", release: failed, lost: true,
			phase: v1alpha1.PhaseError, reason: "CandidateFailed", active: 3, says: long,
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateFailed, Steps: 2, Reason: long},
		},
		{
			name: "the first version is tested", release: untried(""), agent: tried(untried(""), nil),
			phase: v1alpha1.PhasePending, reason: "Testing", summary: "0/3",
			says: "version 4 is being tested: 1 of 2 agents have passed; nothing of the script runs",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateTesting, Passed: 1},
		},
		{
			name: "the first version was given up", release: untried(long), agent: tried(untried(long), nil),
			phase: v1alpha1.PhaseError, reason: "CandidateFailed", summary: "0/3",
			says: "version 4 was given up: " + long + "; nothing of the script runs; change the script or its tests",
			want: v1alpha1.CandidateStatus{Version: 4, State: v1alpha1.CandidateFailed, Passed: 1, Reason: long},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := facts{generation: 4, state: live, release: tt.release, published: true, agent: tt.agent}
			if tt.lost {
				f.state = fleet.State{Err: down.err}
			}
			at := began.Add(tt.at)
			got := statusOf(v1alpha1.LuaScriptStatus{}, &f, at)
			ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady)
			if ready.Status == metav1.ConditionTrue || ready.Reason != tt.reason || !strings.Contains(ready.Message, tt.says) {
				t.Errorf("Ready is %s: %s: %q\nwant %s: %q", ready.Status, ready.Reason, ready.Message, tt.reason, tt.says)
			}
			published := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionPublished)
			if published.Status != metav1.ConditionTrue || !strings.Contains(published.Message, "version 4") {
				t.Errorf("Published: %+v", published)
			}
			stalled := tt.reason == "CandidateFailed"
			if meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionStalled) != stalled ||
				meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReconciling) == stalled ||
				meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionConverged) {
				t.Errorf("conditions: %+v", got.Conditions)
			}
			if got.Phase != tt.phase || got.ActiveVersion != tt.active || (got.Digest == "") != (tt.active == 0) || got.LatestVersion != 4 {
				t.Errorf("%s, version %d (%s) of %d, want %s and %d", got.Phase, got.ActiveVersion, got.Digest, got.LatestVersion, tt.phase, tt.active)
			}
			summary := ""
			if got.Agents != nil {
				summary = got.Agents.Summary
			}
			if summary != tt.summary {
				t.Errorf("agents %q, want %q", summary, tt.summary)
			}
			since := metav1.NewTime(began)
			tt.want.Since = &since
			if got.Candidate == nil || !got.Candidate.Since.Equal(&since) {
				t.Fatalf("candidate: %+v", got.Candidate)
			}
			got.Candidate.Since = &since
			if *got.Candidate != tt.want {
				t.Errorf("candidate\n got %+v\nwant %+v", *got.Candidate, tt.want)
			}
			again := statusOf(got, &f, at.Add(time.Second))
			if !sameStatus(&got, &again) {
				t.Errorf("the same facts are another status\n%+v\n%+v", got, again)
			}
			over := statusOf(got, &facts{generation: 4, state: live, release: release(), published: true, agent: told(nil)}, at)
			if over.Candidate != nil || over.Phase != v1alpha1.PhaseActive || hasteOf(&got, &over) != outcome {
				t.Errorf("it is over: %+v", over)
			}
		})
	}
}

// TestCandidateMessagesFit: however long the reason is, what runs and what to do are said.
func TestCandidateMessagesFit(t *testing.T) {
	r := trying(func(c *script.Candidate) { c.Failed = strings.Repeat("é", script.MaxFailedBytes/2) })
	got := statusOf(v1alpha1.LuaScriptStatus{}, &facts{state: live, release: r, published: true}, began)
	said := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionStalled).Message
	if !strings.HasSuffix(said, "…; version 3 goes on; change the script or its tests") || strings.ContainsRune(said, '\uFFFD') {
		t.Errorf("%d bytes: %s", len(said), said)
	}
}

// TestCandidateHaste: the status reports at once that a candidate was given up, and its calls
// every ten seconds.
func TestCandidateHaste(t *testing.T) {
	status := func(r *script.Release, edit func(*registryclient.ScriptStatus)) v1alpha1.LuaScriptStatus {
		return statusOf(v1alpha1.LuaScriptStatus{}, &facts{state: live, release: r, published: true, agent: tried(r, edit)}, began)
	}
	before := status(trying(nil), nil)
	failed := status(trying(func(c *script.Candidate) { c.Failed = "no" }), nil)
	if hasteOf(&before, &failed) != outcome || onlyCalls(&before, &failed) {
		t.Error("it was given up")
	}
	called := status(trying(nil), func(s *registryclient.ScriptStatus) { s.Trials.Calls = 7 })
	if sameStatus(&before, &called) || !onlyCalls(&before, &called) {
		t.Error("calls alone changed")
	}
	says := func(why string) v1alpha1.LuaScriptStatus {
		return status(trying(inStep(2)), func(s *registryclient.ScriptStatus) { s.Trials.Running, s.Trials.Why = 1, why })
	}
	before, other := says("gate webhook/ci: 3 builds are left"), says("gate webhook/ci: 2 builds are left")
	if sameStatus(&before, &other) || !onlyCalls(&before, &other) {
		t.Error("what the gate says alone changed")
	}
	before = status(trying(nil), nil)
	both := status(trying(nil), func(s *registryclient.ScriptStatus) { s.Trials.Calls, s.Trials.Passed = 7, 2 })
	if onlyCalls(&before, &both) {
		t.Error("more than the calls changed")
	}
}

// advance is what the registry makes of the release by itself.
func (w *world) advance(f func(*script.Release)) {
	w.revision++
	w.release = new(*w.release)
	w.release.Revision = w.revision
	if w.release.Candidate != nil {
		w.release.Candidate = new(*w.release.Candidate)
		w.release.Candidate.Since, w.release.Candidate.Running = time.Now(), time.Now()
	}
	f(w.release)
}

// TestRolloutIsFollowed: through its tests and steps nothing is published again, and each
// thing that becomes of a version has one event, in order.
func TestRolloutIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		w.told()
		pause := "1m"
		w.candidates = true
		ls.Generation, ls.Spec.Source = 2, new("function handle() return 2 end")
		ls.Spec.Rollout = &v1alpha1.Rollout{Steps: []v1alpha1.RolloutStep{{Percent: 10, Pause: &pause}, {Percent: 50}}}
		ls.Spec.Tests = []v1alpha1.Test{{Name: "alpha"}}
		w.update(ls)
		ls = w.pass(2 * time.Second)
		if c := ls.Status.Candidate; c == nil || c.State != v1alpha1.CandidateTesting || ls.Status.ActiveVersion != 1 {
			t.Fatalf("%+v", ls.Status)
		}
		w.advance(func(r *script.Release) { r.Candidate.Step, r.Candidate.Percent = 1, 10 })
		if wait := w.pause(); wait <= 0 || wait > time.Minute+overdue {
			t.Errorf("comes back in %v: the step is over in a minute", wait)
		}
		ls = w.pass(2 * time.Second)
		if c := ls.Status.Candidate; c == nil || c.State != v1alpha1.CandidateRollingOut || c.Step != 1 {
			t.Fatalf("%+v", ls.Status)
		}
		w.restart(0) // another operator goes on with it
		w.advance(func(r *script.Release) { r.Candidate.Step, r.Candidate.Percent = 2, 50 })
		w.pass(2 * time.Second)
		w.advance(func(r *script.Release) { r.Active, r.Candidate = r.Candidate.Version, nil })
		ls = w.pass(2 * time.Second)
		if ls.Status.Candidate != nil || ls.Status.Phase != v1alpha1.PhaseActive || ls.Status.ActiveVersion != 2 {
			t.Errorf("%+v", ls.Status)
		}
		want := []string{"Published", "Configured", "RolloutStep", "RolloutStep", "Promoted", "Converged"}
		if got := w.told(); w.publishes != 2 || !slices.Equal(got, want) {
			t.Errorf("%d publishes, and the events are %v, want %v", w.publishes, got, want)
		}
	})
}

// TestGivenUp: a version that was given up, or aborted behind the LuaScript's back, stays
// so until the spec is another one.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		w.told()
		w.candidates = true
		ls.Generation, ls.Spec.Source = 2, new("function handle() return 2 end")
		w.update(ls)
		w.pass(2 * time.Second)
		w.advance(func(r *script.Release) { r.Candidate.Failed = "aborted by mia" })
		w.restart(0)
		ls = w.pass(5 * time.Minute)
		if ls.Status.Phase != v1alpha1.PhaseError || !strings.Contains(ls.Status.Candidate.Reason, "mia") || w.publishes != 2 {
			t.Errorf("%d publishes, %+v", w.publishes, ls.Status)
		}
		w.advance(func(r *script.Release) { r.Candidate.Failed = "" }) // somebody tries it again
		ls = w.pass(2 * time.Second)
		if ls.Status.Phase != v1alpha1.PhasePending || w.publishes != 2 {
			t.Errorf("%d publishes, %+v", w.publishes, ls.Status)
		}
		w.advance(func(r *script.Release) { r.Candidate.Failed = "node-1: no" })
		ls = w.pass(2 * time.Second)
		w.candidates = false
		ls.Generation, ls.Spec.Source = 3, new("function handle() return 3 end")
		w.update(ls)
		ls = w.pass(2 * time.Second)
		if ls.Status.Phase != v1alpha1.PhaseActive || ls.Status.Candidate != nil {
			t.Errorf("%+v", ls.Status)
		}
		want := []string{"Published", "CandidateFailed", "CandidateFailed", "Published", "Converged"}
		if got := w.told(); !slices.Equal(got, want) {
			t.Errorf("the events are %v, want %v", got, want)
		}
	})
}
