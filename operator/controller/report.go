package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The reasons of events, beside the changes of a publish.
const (
	eventConverged    = "Converged"
	eventRefused      = "Refused"
	eventFailedOnNode = "FailedOnNode"
	eventRestored     = "Restored" // put right what others changed
	eventDeleted      = "Deleted"
	eventAbandoned    = "Abandoned"

	eventRolloutStep     = "RolloutStep" // a candidate is to run on some of the agents
	eventPromoted        = "Promoted"    // a candidate is the active version
	eventCandidateFailed = "CandidateFailed"

	eventHeld     = "Held"     // the script stays at its version, whatever the spec says
	eventReleased = "Released" // it is not held any more
)

// report writes the status, if it is another than before and its pace allows it, and
// tells of what is new. It returns when to come back; 0 if there is no need to.
func (x *reconciliation) report(ctx context.Context) (time.Duration, error) {
	m, now := x.m, time.Now()
	before := m.status(x.ls)
	next := statusOf(*before, &x.facts, now)
	if sameStatus(before, &next) {
		x.tellSince(&next)
		return 0, nil
	}
	if wait := m.grace.Sub(now); wait > 0 && x.underWay(&next) {
		return wait, nil
	}
	if wait := callsInterval - now.Sub(m.writtenAt); wait > 0 && onlyCalls(before, &next) {
		return wait, nil
	}
	if wait := m.pace.take(now, hasteOf(before, &next)); wait > 0 {
		return wait, nil
	}
	at := metav1.NewTime(now).Rfc3339Copy()
	next.LastUpdateTime = &at
	old := before.DeepCopy()
	if m.untold == nil { // else a write before this one may have been done, without its events
		m.untold = old
	}
	if err := x.write(ctx, old, &next); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	x.tellSince(&next)
	return 0, nil
}

// tellSince emits events for what is new in the status, which the API server has, since
// the last events.
func (x *reconciliation) tellSince(status *v1alpha1.LuaScriptStatus) {
	m := x.m
	m.tellNews()
	if m.untold != nil {
		x.tellOutcome(m.untold, status)
		m.untold = nil
	}
}

// underWay reports whether the agents are about to have said all that the status is to
// say.
func (x *reconciliation) underWay(next *v1alpha1.LuaScriptStatus) bool {
	c := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionConverged)
	return x.facts.fault == nil && c != nil && (c.Reason == reasonWaiting || c.Reason == reasonTesting)
}

// write patches the status alone. Nobody else writes it, so that it takes no lock: those
// who change the spec at the same time are not in the way.
func (x *reconciliation) write(ctx context.Context, before, next *v1alpha1.LuaScriptStatus) error {
	object := func(status *v1alpha1.LuaScriptStatus) *v1alpha1.LuaScript {
		return &v1alpha1.LuaScript{
			ObjectMeta: metav1.ObjectMeta{Namespace: x.ls.Namespace, Name: x.ls.Name},
			Status:     *status,
		}
	}
	written := object(next)
	err := x.client.Status().Patch(ctx, x.kind.Object(written), client.MergeFrom(x.kind.Object(object(before))))
	x.metrics.patched(err)
	if err != nil {
		return err
	}
	x.m.written, x.m.version, x.m.writtenAt = &written.Status, written.ResourceVersion, time.Now()
	return nil
}

// tellOutcome tells of what became of the spec, by what the status said before.
func (x *reconciliation) tellOutcome(before, next *v1alpha1.LuaScriptStatus) {
	m := x.m
	if f := x.facts.fault; f != nil && f.permanent {
		was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionStalled)
		if is := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionStalled); was == nil || was.Message != is.Message || was.ObservedGeneration != is.ObservedGeneration {
			x.warn(eventRefused, "Publish", "%s", f.message())
		}
	}
	x.tellHold(before, next)
	if !onItsWay(next.Candidate) { // what fails while it is it waits for, or ends with: either names the agent
		known := before.Agents
		if onItsWay(before.Candidate) {
			known = nil
		}
		x.tellFailures(known, next.Agents)
	}
	if !meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionConverged) {
		return
	}
	if !m.measured {
		m.measured = true
		x.metrics.converged.Observe(time.Since(m.seenAt).Seconds())
		x.traceConvergence()
	}
	if s := x.facts.agent; m.announce && s != nil {
		m.announce = false
		took := ""
		if s.Took > 0 {
			took = fmt.Sprintf(", %v after it was committed", roundTime(s.Took))
		}
		x.note(eventConverged, "Activate", "version %d runs on %d of %d agents%s", s.Release.Active.Number, s.Active, s.Desired, took)
	}
}

// tellHold tells of a hold that is new, is another, or ended.
func (x *reconciliation) tellHold(before, next *v1alpha1.LuaScriptStatus) {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionHeld)
	is := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionHeld)
	switch {
	case is != nil && (was == nil || was.Message != is.Message):
		x.note(eventHeld, "Hold", "%s", is.Message)
	case is == nil && was != nil && was.Reason == reasonFrozen:
		x.note(eventReleased, "Release", "the registry is not frozen any more")
	case is == nil && was != nil:
		x.note(eventReleased, "Release", "the script is not held any more")
	}
}

func onItsWay(c *v1alpha1.CandidateStatus) bool {
	return c != nil && c.State != v1alpha1.CandidateFailed
}

// roundTime leaves three digits or so.
func roundTime(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// tellFailures tells of the agents that are new among those that could not activate the
// release. It leaves out failed tests of a candidate: the event CandidateFailed reports them.
func (x *reconciliation) tellFailures(before, next *v1alpha1.AgentsStatus) {
	if next == nil {
		return
	}
	known := map[string]bool{}
	if before != nil {
		for _, f := range before.Failing {
			known[f.Agent+f.Reason] = true
		}
	}
	var failed []string
	for _, f := range next.Failing {
		if !known[f.Agent+f.Reason] && !strings.HasPrefix(f.Reason, "tests[") {
			failed = append(failed, f.Agent+": "+f.Reason)
		}
	}
	if len(failed) > 0 {
		x.warn(eventFailedOnNode, "Activate", "%s", strings.Join(failed, "; "))
	}
}

// tell tells of what a publish changed; restored says that it had been so before.
func (x *reconciliation) tell(r *script.Release, done Action, restored bool) {
	if restored {
		words := make([]string, len(done.Changes))
		for i, c := range done.Changes {
			words[i] = string(c)
		}
		x.warn(eventRestored, "Publish", "the script was changed behind the %s's back, and was put right (%s)", x.kind, strings.Join(words, ", "))
	}
	for _, c := range done.Changes {
		x.note(string(c), "Publish", "%s", sayChange(c, r, done.Configured))
	}
}

// tellNews tells of what was published (or became of a candidate) since it did so last.
func (m *memory) tellNews() {
	for _, tell := range m.news {
		tell()
	}
	m.news = nil
}

func sayChange(c Change, r *script.Release, configured []string) string {
	active, latest := r.Active.Number, r.Latest
	switch c {
	case Published:
		if c := r.Candidate; c != nil && c.Version.Number == latest {
			return fmt.Sprintf("version %d (%s) is in the registry, at revision %d: it %s", c.Version.Number, c.Version.Digest.Short(), r.Revision, sayWay(r))
		}
		if active != latest {
			return fmt.Sprintf("version %d is in the registry; %s", latest, meanwhile(r))
		}
		return fmt.Sprintf("version %d (%s) is in the registry, at revision %d", active, r.Active.Digest.Short(), r.Revision)
	case Pinned:
		if r.Hold != nil {
			return fmt.Sprintf("version %d is pinned, for when the script is not held any more; %s", r.Hold.Declared, meanwhile(r))
		}
		if c := r.Candidate; c != nil {
			return fmt.Sprintf("version %d is pinned: it %s", c.Version.Number, sayWay(r))
		}
		return fmt.Sprintf("version %d is pinned", active)
	case RolledBack:
		return fmt.Sprintf("back to version %d, which is pinned; version %d is the latest", active, latest)
	case Unpinned:
		if r.Hold != nil {
			return "the latest version is followed again, once the script is not held any more; " + meanwhile(r)
		}
		if c := r.Candidate; c != nil {
			return fmt.Sprintf("the latest version is followed again, %d: it %s", c.Version.Number, sayWay(r))
		}
		return fmt.Sprintf("version %d is active, and will be followed by later ones", active)
	case Enabled:
		if r.Untried() {
			return fmt.Sprintf("the script is enabled; version %d %s", active, sayWay(r))
		}
		return fmt.Sprintf("version %d is enabled", active)
	case Disabled:
		return "the script is disabled: calls are answered DISABLED"
	case Signed:
		newest, _ := r.Newest()
		return fmt.Sprintf("version %d is signed by %s", newest.Number, strings.Join(publisher.SignedBy(newest.Signature), ", "))
	case TakenOver:
		return "the script had no owner; from now on it is changed here alone"
	}
	return "changed: " + strings.Join(configured, ", ")
}

// sayWay says what a release's candidate has before it, or why it has nothing more.
func sayWay(r *script.Release) string {
	meanwhile := "; " + meanwhile(r)
	switch c := r.Candidate; {
	case c.Failed != "":
		return "was given up: " + trimmed(c.Failed) + meanwhile
	case c.Frozen != "":
		return "waits, because the registry is frozen " + c.Frozen + meanwhile
	case r.Untried():
		return "runs when it has passed its tests"
	}
	tests, steps := len(r.Candidate.Spec.Tests), len(r.Plan().Steps)
	switch {
	case steps == 0:
		return "runs when it has passed its tests" + meanwhile
	case tests == 0:
		return "is rolled out in " + stepsText(steps) + meanwhile
	}
	return "is rolled out in " + stepsText(steps) + " when it has passed its tests" + meanwhile
}

func stepsText(n int) string {
	if n == 1 {
		return "one step"
	}
	return fmt.Sprintf("%d steps", n)
}

func (x *reconciliation) note(reason, action, format string, args ...any) {
	x.event(corev1.EventTypeNormal, reason, action, format, args...)
}

func (x *reconciliation) warn(reason, action, format string, args ...any) {
	x.event(corev1.EventTypeWarning, reason, action, format, args...)
}

func (x *reconciliation) event(kind, reason, action, format string, args ...any) {
	x.events.Eventf(x.kind.Object(x.ls), nil, kind, reason, action, "%s", spec.Cut(fmt.Sprintf(format, args...)))
}
