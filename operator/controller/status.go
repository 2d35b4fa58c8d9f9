package controller

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The reasons of conditions, beside those that a fault gives itself.
const (
	reasonPublished      = "Published"
	reasonConverged      = "Converged"
	reasonActive         = "Active"
	reasonDisabled       = "Disabled"
	reasonNotPublished   = "NotPublished"
	reasonWaiting        = "WaitingForAgents"
	reasonNoAgents       = "NoAgents"
	reasonFailedOnAgents = "FailedOnAgents"
	reasonFleetUnknown   = "FleetUnknown"
	reasonDeleting       = "Deleting"
	reasonHeld           = "Held"
	reasonFrozen         = "Frozen"
)

// facts are all that an object's status is made of.
type facts struct {
	generation int64
	release    *script.Release // that is the object's own, as known last; nil for none
	unknown    bool            // whether there is one: the registry has yet to say it
	published  bool            // it is what the spec of that generation says
	fault      *fault          // why there is something left to do; nil for no reason
	deleting   bool

	state fleet.State // of what is known of the fleet
	agent *registryclient.ScriptStatus
	// failing is since when agents fail to activate the release; zero if none does.
	failing time.Time
}

// truth is one condition.
type truth struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

// statusOf returns the status that follows from the facts. prev is the one before,
// which tells since when conditions hold, and what the fleet was when it was known last.
// Of an object that is being deleted, Ready holds since the first attempt failed.
func statusOf(prev v1alpha1.LuaScriptStatus, f *facts, now time.Time) v1alpha1.LuaScriptStatus {
	next := *prev.DeepCopy()
	next.ObservedGeneration = f.generation
	if !f.unknown { // else what was said stays: another operator knew it
		describeRelease(&next, f.release)
		describeCandidate(&next, f)
		describeAgents(&next, script.Revision(prev.Revision), f)
	}

	published := f.publishedTruth()
	converged := f.convergedTruth(published, now)
	if f.settling(&prev, converged) {
		if was := meta.FindStatusCondition(prev.Conditions, v1alpha1.ConditionConverged); was != nil {
			converged = truth{was.Status, was.Reason, was.Message}
		}
		next.Agents = prev.Agents.DeepCopy()
	}
	ready := f.readyTruth(published, converged)
	set := func(kind string, t truth) {
		meta.SetStatusCondition(&next.Conditions, metav1.Condition{
			Type: kind, Status: t.status, Reason: t.reason, Message: spec.Cut(t.message),
			ObservedGeneration: f.generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	// Held, and those of kstatus, are there only while they are true.
	only := func(kind string, holds bool, t truth) {
		if !holds {
			meta.RemoveStatusCondition(&next.Conditions, kind)
			return
		}
		set(kind, truth{metav1.ConditionTrue, t.reason, t.message})
	}
	stalled := f.isStuck(ready.reason, now)
	set(v1alpha1.ConditionReady, ready)
	set(v1alpha1.ConditionPublished, published)
	set(v1alpha1.ConditionConverged, converged)
	only(v1alpha1.ConditionReconciling, !stalled && ready.status != metav1.ConditionTrue, ready)
	only(v1alpha1.ConditionStalled, stalled, ready)
	if held := f.heldTruth(); !f.unknown {
		only(v1alpha1.ConditionHeld, held.reason != "", held)
	}
	if f.deleting && prev.ObservedGeneration != f.generation { // which the deletion made another
		meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionReady).LastTransitionTime = metav1.NewTime(now)
	}
	next.Phase = phaseOf(ready, stalled)
	return next
}

func phaseOf(ready truth, stalled bool) v1alpha1.Phase {
	switch {
	case stalled, ready.reason == reasonFailedOnAgents:
		return v1alpha1.PhaseError
	case ready.status == metav1.ConditionTrue:
		return v1alpha1.PhaseActive
	case ready.reason == reasonHeld, ready.reason == reasonFrozen:
		return v1alpha1.PhaseHeld
	}
	return v1alpha1.PhasePending
}

// settling reports whether converged says no only because the registry, which was
// connected to a moment ago, has yet to hear of its agents: then it is as it was. A
// release that was on its way, or failed, is in the status at once.
func (f *facts) settling(prev *v1alpha1.LuaScriptStatus, converged truth) bool {
	return f.state.Settling && f.published && f.release != nil && prev.Revision == int64(f.release.Revision) &&
		converged.status != metav1.ConditionTrue && converged.reason != reasonFailedOnAgents &&
		meta.IsStatusConditionTrue(prev.Conditions, v1alpha1.ConditionConverged)
}

func (f *facts) publishedTruth() truth {
	switch {
	case f.published && f.release != nil:
		return truth{metav1.ConditionTrue, reasonPublished, fmt.Sprintf("version %d is in the registry, at revision %d", wantedVersion(f.release), f.release.Revision)}
	case f.fault == nil:
		return truth{metav1.ConditionFalse, reasonNotPublished, "what the spec says is not in the registry yet"}
	case !f.fault.permanent && f.fault.word == "": // it may have been, just before
		return truth{metav1.ConditionUnknown, f.fault.reason(), f.fault.message()}
	}
	return truth{metav1.ConditionFalse, f.fault.reason(), f.fault.message()}
}

// wantedVersion returns the number of the version that was asked for: the candidate, as long
// as there is one, and not the one that runs meanwhile, or that somebody holds.
func wantedVersion(r *script.Release) uint64 {
	switch {
	case r.Candidate != nil:
		return r.Candidate.Version.Number
	case r.Hold != nil:
		return r.Wanted()
	}
	return r.Active.Number
}

// heldTruth says who holds the script, or who froze the registry, and why; the zero truth if
// nobody does.
func (f *facts) heldTruth() truth {
	switch {
	case f.release != nil && f.release.Frozen():
		return truth{metav1.ConditionTrue, reasonFrozen, fmt.Sprintf("version %d is stored, and does not run: %s", f.release.Candidate.Version.Number, f.release.HeldBack())}
	case f.frozen():
		return truth{metav1.ConditionTrue, reasonFrozen, fmt.Sprintf("version %d goes no further: %s", f.release.Candidate.Version.Number, f.trials().Why)}
	case f.release == nil || f.release.Hold == nil:
		return truth{}
	}
	if text := f.release.HeldBack(); text != "" {
		return truth{metav1.ConditionTrue, reasonHeld, fmt.Sprintf("version %d is stored, and does not run: %s", f.release.Wanted(), text)}
	}
	return truth{metav1.ConditionTrue, reasonHeld, fmt.Sprintf("held at v%d %s", f.release.Active.Number, f.release.Hold)}
}

// activeVersion returns the number of the version that runs; 0 if nothing does.
func activeVersion(r *script.Release) uint64 {
	if r.Untried() {
		return 0
	}
	return r.Active.Number
}

func (f *facts) convergedTruth(published truth, now time.Time) truth {
	no := func(reason, format string, args ...any) truth {
		return truth{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
	}
	switch published.status {
	case metav1.ConditionFalse:
		return no(reasonNotPublished, "what the spec says is not in the registry")
	case metav1.ConditionUnknown:
		return truth{published.status, reasonNotPublished, "it is not known whether what the spec says is in the registry"}
	}
	candidate := f.candidate()
	if candidate != nil && candidate.Failed != "" {
		return f.candidateFailed()
	}
	if held := f.heldTruth(); held.reason == reasonFrozen {
		return no(reasonFrozen, "%s; %s", held.message, f.meanwhile())
	}
	if !f.state.Live {
		why := "the registry has not been heard of yet"
		if f.state.Err != nil {
			why = f.state.Err.Error()
		}
		return truth{metav1.ConditionUnknown, reasonFleetUnknown, "what the agents run is not known now: " + why}
	}
	s := f.agent
	version := f.release.Active.Number
	switch current := s != nil && s.Release.Revision == f.release.Revision; {
	case !current && candidate != nil:
		return f.candidateTruth(now)
	case !current:
		return no(reasonWaiting, "version %d is on its way to the agents", version)
	case s.Desired == 0:
		return no(reasonNoAgents, "no agent follows the tenant %s: is there one on each node?", s.Release.Name.Tenant)
	case s.Desired == s.Unknown:
		return no(reasonNoAgents, "none of the %d agents has been heard of for 15s", s.Desired)
	case candidate != nil:
		return f.candidateTruth(now)
	case s.Failed > 0:
		return f.failedOnAgents(now)
	case !s.Converged:
		return no(reasonWaiting, "version %d runs on %d of %d agents%s", version, s.Active, s.Desired, unknown(s))
	case f.release.HeldBack() != "":
		return no(reasonHeld, "%s", f.heldTruth().message)
	}
	return truth{metav1.ConditionTrue, reasonConverged, fmt.Sprintf("version %d runs on %d of %d agents%s", version, s.Active, s.Desired, unknown(s))}
}

// unknown tells of the agents that are waited for no more.
func unknown(s *registryclient.ScriptStatus) string {
	if s.Unknown == 0 {
		return ""
	}
	return fmt.Sprintf("; %d not heard of for 15s", s.Unknown)
}

// readyTruth is what the others come to.
func (f *facts) readyTruth(published, converged truth) truth {
	switch {
	case f.deleting && f.fault == nil:
		return truth{metav1.ConditionFalse, reasonDeleting, "the script is being removed from the registry"}
	case f.deleting, f.fault != nil && f.fault.permanent:
		return truth{metav1.ConditionFalse, f.fault.reason(), f.fault.message()}
	case published.status != metav1.ConditionTrue:
		return published
	case converged.status != metav1.ConditionTrue:
		return converged
	case !f.release.Enabled:
		return truth{metav1.ConditionTrue, reasonDisabled, converged.message + ", and is disabled there"}
	}
	return truth{metav1.ConditionTrue, reasonActive, converged.message}
}

// describeRelease puts what the registry has into the status.
func describeRelease(s *v1alpha1.LuaScriptStatus, r *script.Release) {
	s.ActiveVersion, s.LatestVersion, s.Digest, s.Revision, s.History = 0, 0, "", 0, nil
	if r == nil {
		return
	}
	s.LatestVersion, s.Revision = int64(r.Latest), int64(r.Revision)
	if s.ActiveVersion = int64(activeVersion(r)); s.ActiveVersion != 0 { //nolint:gosec // the registry's number
		s.Digest = r.Active.Digest.String()
	}
	for i := len(r.Retained) - 1; i >= 0 && len(s.History) < script.MaxHistoryLimit; i-- {
		v := r.Retained[i]
		entry := v1alpha1.VersionStatus{Version: int64(v.Number), Digest: v.Digest.String()}
		if !v.CreatedAt.IsZero() {
			at := metav1.NewTime(v.CreatedAt).Rfc3339Copy() // as it is read back
			entry.CreatedAt = &at
		}
		s.History = append(s.History, entry)
	}
}

// describeAgents puts what the fleet says into the status. What was known of the same
// release stays while nobody knows better.
func describeAgents(s *v1alpha1.LuaScriptStatus, before script.Revision, f *facts) {
	switch {
	case f.release != nil && !f.state.Live && before == f.release.Revision:
		return
	case f.release == nil, !f.state.Live, f.agent == nil:
		s.Agents = nil
		return
	}
	told := *f.agent
	if told.Release.Revision != f.release.Revision { // of the release before this one
		told.Failed, told.Failures = 0, nil
		if f.candidate() == nil || told.Release.Active.Number != f.release.Active.Number {
			told.Active = 0
		}
	}
	a := &v1alpha1.AgentsStatus{
		Summary: fmt.Sprintf("%d/%d", told.Active, told.Desired),
		Desired: int32(told.Desired), Active: int32(told.Active), Failed: int32(told.Failed), Unknown: int32(told.Unknown),
	}
	for _, failure := range told.Failures[:min(len(told.Failures), maxFailing)] {
		a.Failing = append(a.Failing, v1alpha1.FailingAgent{Agent: failure.Agent, Reason: spec.Cut(failure.Err.Error())})
	}
	s.Agents = a
}

// maxFailing is how many agents that failed are named.
const maxFailing = 5

// sameStatus reports whether there is nothing to write: when a status was written last
// does not count.
func sameStatus(a, b *v1alpha1.LuaScriptStatus) bool {
	x, y := *a, *b
	x.LastUpdateTime, y.LastUpdateTime = nil, nil
	return equality.Semantic.DeepEqual(&x, &y)
}

// hasteOf returns the urgency of what changed.
func hasteOf(before, after *v1alpha1.LuaScriptStatus) haste {
	most := counts
	if before.ObservedGeneration != after.ObservedGeneration || len(before.Conditions) != len(after.Conditions) ||
		stageOf(before.Candidate) != stageOf(after.Candidate) {
		most = condition
	}
	for _, c := range after.Conditions {
		was := meta.FindStatusCondition(before.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.ObservedGeneration == c.ObservedGeneration {
			continue
		}
		most = max(most, condition)
		if c.Status == metav1.ConditionTrue && (c.Type == v1alpha1.ConditionConverged || c.Type == v1alpha1.ConditionStalled) {
			most = outcome
		}
	}
	return most
}
