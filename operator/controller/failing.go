package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// failurePatience is how long agents may fail to activate a release before somebody has to
// look at them. They retry once a second, so most faults that pass have passed by then.
const failurePatience = time.Minute

// failing is since when agents fail to activate a revision; the zero value means that none
// fails.
type failing struct {
	revision script.Revision
	since    time.Time
}

// failedOnAgents says which agents could not activate the release, and what to do about it.
func (f *facts) failedOnAgents(now time.Time) truth {
	s := f.agent
	advice := "the agents retry it"
	switch {
	case isDeterministic(s):
		advice = "no retry changes this: change the script or these agents"
	case f.outOfPatience(now):
		advice = fmt.Sprintf("retries have failed for more than %v: repair these agents", failurePatience)
	}
	return truth{metav1.ConditionFalse, reasonFailedOnAgents, fmt.Sprintf("%d of %d agents could not activate version %d: %s; %s",
		s.Failed, s.Desired, f.release.Active.Number, trimmed(failures(s)), advice)}
}

func failures(s *registryclient.ScriptStatus) string {
	texts := make([]string, 0, len(s.Failures))
	for _, f := range s.Failures {
		texts = append(texts, f.Agent+": "+f.Err.Error())
	}
	return cmp.Or(strings.Join(texts, "; "), "they have not said why")
}

// isDeterministic reports whether a failure is known that no agent retries. The registry
// names five failures at most: patience ends with the others.
func isDeterministic(s *registryclient.ScriptStatus) bool {
	return slices.ContainsFunc(s.Failures, func(f registryclient.AgentFailure) bool {
		return script.KindOf(f.Err).Deterministic()
	})
}

// outOfPatience reports whether retries have failed for too long.
func (f *facts) outOfPatience(now time.Time) bool {
	return !f.failing.IsZero() && now.Sub(f.failing) >= failurePatience
}

// isStuck reports whether somebody has to change something, for that reason of Ready.
func (f *facts) isStuck(reason string, now time.Time) bool {
	switch reason {
	case reasonCandidateFailed:
		return true
	case reasonFailedOnAgents:
		return isDeterministic(f.agent) || f.outOfPatience(now)
	}
	return f.fault != nil && f.fault.permanent
}

// followFailures takes note of since when agents fail. An operator that was restarted takes
// the word of the one before it, whose status says Stalled.
func (x *reconciliation) followFailures() {
	m, f := x.m, &x.facts
	if f.convergedTruth(f.publishedTruth(), x.now).reason != reasonFailedOnAgents {
		if f.state.Live && !f.state.Settling { // else nobody knows
			m.failing = failing{}
		}
		return
	}
	if m.failing.revision != f.release.Revision {
		m.failing = failing{f.release.Revision, x.now}
		if s := m.status(x.ls); s.Revision == int64(f.release.Revision) && isStalledOnAgents(s) {
			m.failing.since = x.now.Add(-failurePatience)
		}
	}
	f.failing = m.failing.since
	if f.isStuck(reasonFailedOnAgents, x.now) {
		m.measured = true // the time that somebody takes to repair agents is not the operator's
	}
}

func isStalledOnAgents(s *v1alpha1.LuaScriptStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reasonFailedOnAgents
}

// patienceLasts returns how long the agents may still fail; 0 if none fails, or if they have
// failed for too long already.
func (f *facts) patienceLasts(now time.Time) time.Duration {
	if f.failing.IsZero() {
		return 0
	}
	return max(0, f.failing.Add(failurePatience).Sub(now))
}
