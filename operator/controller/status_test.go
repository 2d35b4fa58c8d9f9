package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// release is version 3, at revision 12.
func release() *script.Release {
	v := func(n uint64) script.Version {
		return script.Version{Number: n, Digest: script.DigestOf([]byte{byte(n)}), CreatedAt: time.Unix(int64(n), 5)}
	}
	return &script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 12, Active: v(3), Latest: 3, Enabled: true,
		Retained: []script.Version{v(2), v(3)},
	}
}

// told is what the fleet says of it, when all is well.
func told(edit func(*registryclient.ScriptStatus)) *registryclient.ScriptStatus {
	s := &registryclient.ScriptStatus{Release: *release(), Desired: 2, Active: 2, Converged: true}
	if edit != nil {
		edit(s)
	}
	return s
}

// failingWith is what is known when one of two agents could not activate the release, and since
// when that is so.
func failingWith(kind script.Kind, why string) facts {
	return facts{state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) {
		s.Active, s.Failed, s.Converged = 1, 1, false
		s.Failures = []registryclient.AgentFailure{{Agent: "node-b", Err: script.Errorf(kind, "", "%s", why)}}
	}), failing: time.Unix(1990, 0)}
}

// forLong is what is known when that is so for too long.
func forLong(f facts) facts {
	f.failing = time.Unix(2000, 0).Add(-failurePatience)
	return f
}

var (
	live    = fleet.State{Live: true, Session: 1, Head: 12}
	refused = &fault{err: script.Errorf(script.NotFound, "spec.version", "acme/route has no version 9"), permanent: true}
	down    = &fault{err: script.Errorf(script.Unavailable, "", "cannot reach the registry")}
)

// TestStatus: what follows from what is known. Conditions are written as
// "Ready=True/Active", in their order in the status.
func TestStatus(t *testing.T) {
	good := []string{"Ready=True/Active", "Published=True/Published", "Converged=True/Converged"}
	tests := []struct {
		name    string
		facts   facts
		phase   v1alpha1.Phase
		want    []string
		says    string // of Ready's message
		summary string
	}{
		{
			name:  "nothing known yet",
			facts: facts{state: live}, phase: v1alpha1.PhasePending,
			want: []string{"Ready=False/NotPublished", "Published=False/NotPublished", "Converged=False/NotPublished", "Reconciling=True/NotPublished"},
		},
		{
			name:  "all is well",
			facts: facts{state: live, release: release(), published: true, agent: told(nil)}, phase: v1alpha1.PhaseActive,
			want: good, says: "version 3 runs on 2 of 2 agents", summary: "2/2",
		},
		{
			name: "disabled",
			facts: func() facts {
				r := release()
				r.Enabled = false
				return facts{state: live, release: r, published: true, agent: told(nil)}
			}(),
			phase: v1alpha1.PhaseActive, says: "disabled", summary: "2/2",
			want: []string{"Ready=True/Disabled", "Published=True/Published", "Converged=True/Converged"},
		},
		{
			name:  "an agent is unknown: the connected ones are what counts",
			facts: facts{state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Active, s.Unknown = 1, 1 })},
			phase: v1alpha1.PhaseActive, want: good, says: "1 not heard of for 15s", summary: "1/2",
		},
		{
			name:  "on its way",
			facts: facts{state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Active, s.Converged = 1, false })},
			phase: v1alpha1.PhasePending, says: "1 of 2", summary: "1/2",
			want: []string{"Ready=False/WaitingForAgents", "Published=True/Published", "Converged=False/WaitingForAgents", "Reconciling=True/WaitingForAgents"},
		},
		{
			name:  "the fleet tells of the release before",
			facts: facts{state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Release.Revision = 11 })},
			phase: v1alpha1.PhasePending, summary: "0/2",
			want: []string{"Ready=False/WaitingForAgents", "Published=True/Published", "Converged=False/WaitingForAgents", "Reconciling=True/WaitingForAgents"},
		},
		{
			name:  "the fleet does not know the script yet",
			facts: facts{state: live, release: release(), published: true},
			phase: v1alpha1.PhasePending,
			want:  []string{"Ready=False/WaitingForAgents", "Published=True/Published", "Converged=False/WaitingForAgents", "Reconciling=True/WaitingForAgents"},
		},
		{
			name:  "no agents",
			facts: facts{state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Desired, s.Active, s.Converged = 0, 0, false })},
			phase: v1alpha1.PhasePending, says: "no agent follows the tenant acme", summary: "0/0",
			want: []string{"Ready=False/NoAgents", "Published=True/Published", "Converged=False/NoAgents", "Reconciling=True/NoAgents"},
		},
		{
			name:  "all agents are lost",
			facts: facts{state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Unknown, s.Active, s.Converged = 2, 0, false })},
			phase: v1alpha1.PhasePending, says: "none of the 2 agents", summary: "0/2",
			want: []string{"Ready=False/NoAgents", "Published=True/Published", "Converged=False/NoAgents", "Reconciling=True/NoAgents"},
		},
		{
			name:  "failed on an agent, which retries",
			facts: failingWith(script.Unavailable, "the disk is full"), phase: v1alpha1.PhaseError,
			says: "node-b: the disk is full; the agents retry it", summary: "1/2",
			want: []string{"Ready=False/FailedOnAgents", "Published=True/Published", "Converged=False/FailedOnAgents", "Reconciling=True/FailedOnAgents"},
		},
		{
			name:  "failed on an agent, whose retries have failed for a while",
			facts: forLong(failingWith(script.Internal, "the disk is full")), phase: v1alpha1.PhaseError,
			says: "node-b: the disk is full; retries have failed for more than 1m0s: repair these agents", summary: "1/2",
			want: []string{"Ready=False/FailedOnAgents", "Published=True/Published", "Converged=False/FailedOnAgents", "Stalled=True/FailedOnAgents"},
		},
		{
			name:  "failed on an agent, where retries change nothing",
			facts: failingWith(script.Limit, "the program is too large"), phase: v1alpha1.PhaseError,
			says: "node-b: the program is too large; no retry changes this: change the script or these agents", summary: "1/2",
			want: []string{"Ready=False/FailedOnAgents", "Published=True/Published", "Converged=False/FailedOnAgents", "Stalled=True/FailedOnAgents"},
		},
		{
			name:  "the watch is broken: nobody knows",
			facts: facts{state: fleet.State{Err: down.err}, release: release(), published: true, agent: told(nil)},
			phase: v1alpha1.PhasePending, says: "cannot reach the registry",
			want: []string{"Ready=Unknown/FleetUnknown", "Published=True/Published", "Converged=Unknown/FleetUnknown", "Reconciling=True/FleetUnknown"},
		},
		{
			name:  "the registry is down: it may or may not be published",
			facts: facts{state: fleet.State{Err: down.err}, release: release(), fault: down},
			phase: v1alpha1.PhasePending, says: "cannot reach the registry",
			want: []string{"Ready=Unknown/RegistryUnavailable", "Published=Unknown/RegistryUnavailable", "Converged=Unknown/NotPublished", "Reconciling=True/RegistryUnavailable"},
		},
		{
			name:  "the registry was away for a moment, and had it before",
			facts: facts{state: live, release: release(), published: true, fault: down, agent: told(nil)},
			phase: v1alpha1.PhaseActive, want: good, summary: "2/2",
		},
		{
			name:  "refused",
			facts: facts{state: live, release: release(), fault: refused, agent: told(nil)}, phase: v1alpha1.PhaseError,
			says: "spec.version: acme/route has no version 9", summary: "2/2",
			want: []string{"Ready=False/VersionNotFound", "Published=False/VersionNotFound", "Converged=False/NotPublished", "Stalled=True/VersionNotFound"},
		},
		{
			name:  "forbidden after it was published",
			facts: facts{state: live, release: release(), published: true, agent: told(nil), fault: &fault{err: script.Errorf(script.Denied, "spec.tenantId", "no"), permanent: true}},
			phase: v1alpha1.PhaseError, summary: "2/2",
			want: []string{"Ready=False/Denied", "Published=True/Published", "Converged=True/Converged", "Stalled=True/Denied"},
		},
		{
			name:  "the status does not describe a script of somebody else",
			facts: facts{state: live, agent: told(nil), fault: &fault{err: script.Errorf(script.Denied, "owner", "acme/route belongs to another"), permanent: true}},
			phase: v1alpha1.PhaseError, says: "belongs to another",
			want: []string{"Ready=False/Denied", "Published=False/Denied", "Converged=False/NotPublished", "Stalled=True/Denied"},
		},
		{
			name:  "being deleted, and the registry is down",
			facts: facts{state: live, release: release(), deleting: true, fault: down, agent: told(nil)},
			phase: v1alpha1.PhasePending, says: "cannot reach the registry", summary: "2/2",
			want: []string{"Ready=False/RegistryUnavailable", "Published=Unknown/RegistryUnavailable", "Converged=Unknown/NotPublished", "Reconciling=True/RegistryUnavailable"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.facts.generation = 4
			now := time.Unix(2000, 0)
			got := statusOf(v1alpha1.LuaScriptStatus{}, &tt.facts, now)
			var texts []string
			for _, c := range got.Conditions {
				texts = append(texts, c.Type+"="+string(c.Status)+"/"+c.Reason)
				if c.ObservedGeneration != 4 || c.Message == "" {
					t.Errorf("%s: generation %d, message %q", c.Type, c.ObservedGeneration, c.Message)
				}
			}
			if !slices.Equal(texts, tt.want) {
				t.Errorf("conditions\n got %v\nwant %v", texts, tt.want)
			}
			if got.Phase != tt.phase || got.ObservedGeneration != 4 {
				t.Errorf("phase %s at generation %d, want %s", got.Phase, got.ObservedGeneration, tt.phase)
			}
			if ready := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady); !strings.Contains(ready.Message, tt.says) {
				t.Errorf("it says %q, and not %q", ready.Message, tt.says)
			}
			summary := ""
			if got.Agents != nil {
				summary = got.Agents.Summary
			}
			if summary != tt.summary {
				t.Errorf("agents %q, want %q", summary, tt.summary)
			}
			if got, want := kstatusOf(t, &got), wantedKstatus(tt.want); got != want {
				t.Errorf("kstatus says %s, want %s", got, want)
			}
			again := statusOf(got, &tt.facts, now.Add(30*time.Second))
			if !sameStatus(&got, &again) || hasteOf(&got, &again) != counts {
				t.Errorf("the same facts are another status\n%+v\n%+v", got, again)
			}
			if (tt.facts.release == nil) != (got.ActiveVersion == 0 && got.Digest == "" && got.History == nil) {
				t.Errorf("release: %+v", got)
			}
		})
	}
}

// kstatusOf returns what kstatus says of a LuaScript with that status.
func kstatusOf(t *testing.T, s *v1alpha1.LuaScriptStatus) status.Status {
	t.Helper()
	ls := &v1alpha1.LuaScript{ObjectMeta: metav1.ObjectMeta{Generation: s.ObservedGeneration}, Status: *s}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ls)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// wantedKstatus is what kstatus has to say of such conditions.
func wantedKstatus(conditions []string) status.Status {
	switch last := conditions[len(conditions)-1]; {
	case strings.HasPrefix(last, "Stalled=True/"):
		return status.FailedStatus
	case strings.HasPrefix(last, "Reconciling=True/"):
		return status.InProgressStatus
	}
	return status.CurrentStatus
}

func TestStatusTellsOfTheRelease(t *testing.T) {
	got := statusOf(v1alpha1.LuaScriptStatus{}, &facts{state: live, release: release(), published: true}, time.Unix(0, 0))
	if got.ActiveVersion != 3 || got.LatestVersion != 3 || got.Revision != 12 || got.Digest != release().Active.Digest.String() {
		t.Errorf("%+v", got)
	}
	if len(got.History) != 2 || got.History[0].Version != 3 || got.History[1].Version != 2 || got.History[0].CreatedAt.Unix() != 3 {
		t.Errorf("history: %+v", got.History)
	}
	known := statusOf(v1alpha1.LuaScriptStatus{}, &facts{state: live, release: release(), published: true, agent: told(nil)}, time.Unix(0, 0))
	if lost := statusOf(known, &facts{release: release(), published: true, agent: told(nil)}, time.Unix(0, 0)); lost.Agents == nil || lost.Agents.Summary != "2/2" {
		t.Errorf("the fleet is not known now; before: %+v", lost.Agents)
	}
	newer := release()
	newer.Revision = 13
	if lost := statusOf(known, &facts{release: newer, published: true, agent: told(nil)}, time.Unix(0, 0)); lost.Agents != nil {
		t.Errorf("of another release nothing is known: %+v", lost.Agents)
	}
	many := release()
	many.Retained = nil
	for n := range uint64(script.MaxHistoryLimit + 5) {
		many.Retained = append(many.Retained, script.Version{Number: n + 1})
	}
	got = statusOf(got, &facts{state: live, release: many}, time.Unix(0, 0))
	if len(got.History) != script.MaxHistoryLimit || got.History[0].Version != script.MaxHistoryLimit+5 {
		t.Errorf("%d versions from %d", len(got.History), got.History[0].Version)
	}
	if got = statusOf(got, &facts{state: live}, time.Unix(0, 0)); got.ActiveVersion != 0 || got.History != nil || got.Agents != nil {
		t.Errorf("it is gone, and still in the status: %+v", got)
	}
}

// TestStatusBeforeTheRegistryAnswers: an operator that has yet to hear of the release, or
// that there is none, leaves what the one before it said.
func TestStatusBeforeTheRegistryAnswers(t *testing.T) {
	r := trying(inStep(1))
	full := statusOf(v1alpha1.LuaScriptStatus{}, &facts{generation: 4, state: live, release: r, published: true, agent: tried(r, nil)}, time.Unix(0, 0))
	for _, s := range []fleet.State{{Err: down.err}, live} {
		got := statusOf(full, &facts{generation: 5, state: s, unknown: true, fault: down}, time.Unix(1, 0))
		c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionPublished)
		if c.Status != metav1.ConditionUnknown || c.ObservedGeneration != 5 || got.Phase != v1alpha1.PhasePending {
			t.Errorf("it is said to be known: %+v", got)
		}
		got.ObservedGeneration, got.Phase, got.Conditions = full.ObservedGeneration, full.Phase, full.Conditions
		if full.Candidate == nil || full.Agents == nil || full.History == nil || !sameStatus(&full, &got) {
			t.Errorf("it was forgotten\n got %+v\nwant %+v", got, full)
		}
	}
	if gone := statusOf(full, &facts{state: live, fault: down}, time.Unix(1, 0)); gone.Revision != 0 || gone.Candidate != nil || gone.Agents != nil {
		t.Errorf("there is none, and it is in the status: %+v", gone)
	}
}

// TestStatusWhileTheRegistrySettles: a registry that was restarted has yet to hear of its
// agents. Nothing that was so is taken back for that; what was not so does not become so.
func TestStatusWhileTheRegistrySettles(t *testing.T) {
	converged := statusOf(v1alpha1.LuaScriptStatus{}, &facts{state: live, release: release(), published: true, agent: told(nil)}, time.Unix(0, 0))
	settling := live
	settling.Settling = true
	nobody := func(s *registryclient.ScriptStatus) { s.Desired, s.Active, s.Converged = 0, 0, false }
	tests := []struct {
		name string
		prev v1alpha1.LuaScriptStatus
		f    facts
		want metav1.ConditionStatus
	}{
		{"it was converged", converged, facts{state: settling, release: release(), published: true, agent: told(nobody)}, metav1.ConditionTrue},
		{"it was not", v1alpha1.LuaScriptStatus{}, facts{state: settling, release: release(), published: true, agent: told(nobody)}, metav1.ConditionFalse},
		{"it still does not know them", converged, facts{state: live, release: release(), published: true, agent: told(nobody)}, metav1.ConditionFalse},
		{"an agent failed", converged, facts{state: settling, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Failed, s.Active, s.Converged = 1, 1, false })}, metav1.ConditionFalse},
		{"another release", converged, facts{state: settling, release: func() *script.Release { r := release(); r.Revision = 13; return r }(), published: true, agent: told(nobody)}, metav1.ConditionFalse},
	}
	for _, tt := range tests {
		got := statusOf(tt.prev, &tt.f, time.Unix(9, 0))
		c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionConverged)
		if c.Status != tt.want {
			t.Errorf("%s: Converged is %s (%s), want %s", tt.name, c.Status, c.Message, tt.want)
		}
		if tt.want == metav1.ConditionTrue && got.Agents.Summary != "2/2" {
			t.Errorf("%s: agents %s", tt.name, got.Agents.Summary)
		}
	}
}

func TestHaste(t *testing.T) {
	f := facts{generation: 1, state: live, release: release(), published: true, agent: told(func(s *registryclient.ScriptStatus) { s.Active, s.Converged = 0, false })}
	before := statusOf(v1alpha1.LuaScriptStatus{}, &f, time.Unix(0, 0))
	f.agent = told(func(s *registryclient.ScriptStatus) { s.Active, s.Converged = 1, false })
	after := statusOf(before, &f, time.Unix(1, 0))
	if sameStatus(&before, &after) || hasteOf(&before, &after) != counts {
		t.Error("a count changed: that is worth a write, and no haste")
	}
	f.agent = told(nil)
	if after = statusOf(before, &f, time.Unix(1, 0)); hasteOf(&before, &after) != outcome {
		t.Error("it converged")
	}
	converged := after
	f.generation = 2
	if after = statusOf(converged, &f, time.Unix(2, 0)); hasteOf(&converged, &after) != outcome {
		t.Error("it is another generation")
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		err       error
		permanent bool
		reason    string
	}{
		{script.Errorf(script.Script, "source", "unexpected 'end'"), true, "DoesNotCompile"},
		{script.Errorf(script.Invalid, "spec.script", "is not base64"), true, "Invalid"},
		{script.Errorf(script.Denied, "owner", "no"), true, "Denied"},
		{script.Errorf(script.Limit, "settings.limits", "no"), true, "LimitExceeded"},
		{script.Errorf(script.NotFound, "pin", "no"), true, "VersionNotFound"},
		{script.Errorf(script.Unavailable, "", "no"), false, "RegistryUnavailable"},
		{script.Errorf(script.Timeout, "", "no"), false, "RegistryUnavailable"},
		{script.Errorf(script.Overloaded, "", "no"), false, "RegistryOverloaded"},
		{script.Errorf(script.Conflict, "", "no"), false, "Conflict"},
		{errors.New("what?"), false, "Failed"},
	}
	for _, tt := range tests {
		if f := faultOf(tt.err); f.permanent != tt.permanent || f.reason() != tt.reason {
			t.Errorf("%v: permanent %v, %s", tt.err, f.permanent, f.reason())
		}
	}
}
