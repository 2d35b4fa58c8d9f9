package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The reasons of conditions while there is a candidate.
const (
	reasonTesting         = "Testing"
	reasonRollingOut      = "RollingOut"
	reasonCandidateFailed = "CandidateFailed"
)

// candidate returns the version on its way to being active; nil if there is none.
func (f *facts) candidate() *script.Candidate {
	if f.release == nil {
		return nil
	}
	return f.release.Candidate
}

// trials returns what agents say of the candidate; nil if they, or the registry, have yet
// to say it of the release as it is.
func (f *facts) trials() *registryclient.Trials {
	if f.agent == nil || f.agent.Release.Revision != f.release.Revision {
		return nil
	}
	return f.agent.Trials
}

// frozen reports whether the candidate has begun, and waits for the end of a freeze.
func (f *facts) frozen() bool {
	c := f.candidate()
	if c == nil || c.Failed != "" {
		return false
	}
	t := f.trials()
	return t != nil && strings.HasPrefix(t.Why, script.WaitsForThaw)
}

// candidateFailed says why the candidate was given up, and what to do. It is the
// registry's word, whatever is known of the fleet.
func (f *facts) candidateFailed() truth {
	c := f.candidate()
	return truth{metav1.ConditionFalse, reasonCandidateFailed, fmt.Sprintf("version %d was given up: %s; %s; change the script or its tests",
		c.Version.Number, trimmed(c.Failed), f.meanwhile())}
}

// trimmed leaves room, in a message, for what comes after a reason that is long.
func trimmed(reason string) string {
	const most = 800
	if len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:most], "") + "…"
}

// meanwhile says what runs where the candidate does not.
func (f *facts) meanwhile() string { return meanwhile(f.release) }

func meanwhile(r *script.Release) string {
	if r.Untried() {
		return "nothing of the script runs"
	}
	return fmt.Sprintf("version %d goes on", r.Active.Number)
}

// candidateTruth says how far the candidate has come, which was not given up.
func (f *facts) candidateTruth(now time.Time) truth {
	c, t := f.candidate(), f.trials()
	no := func(reason, format string, args ...any) truth {
		return truth{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
	}
	if f.release.CandidateState() == script.CandidateTesting {
		told := ""
		if t != nil {
			of := f.agent.Desired - f.agent.Unknown
			told = fmt.Sprintf(": %d of %d agents have passed%s", t.Passed, of, f.waitedFor())
			if t.Passed >= of && t.Why != "" {
				told += ", and it waits: " + trimmed(t.Why)
			}
		}
		return no(reasonTesting, "version %d is being tested%s; %s", c.Version.Number, told, f.meanwhile())
	}
	steps := f.release.Plan().Steps
	why := f.why()
	if c.Step == 0 && why != "" {
		why = ": " + why
	}
	if c.Step == 0 && len(steps) == 0 {
		return no(reasonRollingOut, "version %d is about to be live everywhere%s%s; %s", c.Version.Number, why, f.waitedFor(), f.meanwhile())
	}
	if c.Step == 0 {
		who := "the agents"
		if next := f.release.NextStep(); next.Selector != "" || next.By != script.ByAgent {
			who = next.Agents() // there may be none
		}
		return no(reasonRollingOut, "version %d is about to run on %s of step 1 of %d%s%s; %s",
			c.Version.Number, who, len(steps), why, f.waitedFor(), f.meanwhile())
	}
	step, _ := f.release.StepOf()
	where := "is to run on " + step.Agents()
	if t != nil && t.Running > 0 {
		where = fmt.Sprintf("runs on %d of %d agents", t.Running, f.agent.Desired-f.agent.Unknown)
	}
	rest := f.meanwhile() + " elsewhere"
	if step.By == script.ByShadow {
		where, rest = shadowing(where, step), fmt.Sprintf("version %d answers all calls", f.release.Active.Number)
	}
	until := ", and goes on when each agent is well with it"
	if end := f.stepEnds(); end.After(now) {
		until = " until " + end.UTC().Format(time.RFC3339)
	} else if why != "" && t.Running > 0 { // else it waits for its agents
		until = ", and waits: " + why
	}
	return no(reasonRollingOut, "version %d %s (step %d of %d)%s%s; %s",
		c.Version.Number, where, c.Step, len(steps), until, f.waitedFor(), rest)
}

// why says what the rollout waits for; "" if for nothing.
func (f *facts) why() string {
	if t := f.trials(); t != nil {
		return trimmed(t.Why)
	}
	return ""
}

// shadowing completes where a candidate runs in a shadow step.
func shadowing(where string, step script.Step) string {
	shadow := fmt.Sprintf(", in the shadow of %d %% of the calls", step.Percent)
	return strings.TrimSuffix(where, shadow) + shadow
}

// waitedFor names the first of the agents that the candidate waits for, with the reason if
// there is one; "" if it waits for none.
func (f *facts) waitedFor() string {
	t := f.trials()
	if t == nil || len(t.WaitingFor) == 0 {
		return ""
	}
	said := ", waiting for " + t.WaitingFor[0]
	if t.WaitingWhy != "" {
		said += " (" + t.WaitingWhy + ")"
	}
	if t.Waiting > 1 {
		said += fmt.Sprintf(" and %d more", t.Waiting-1)
	}
	return said
}

// stepEnds returns when the candidate's step has lasted for as long as it is to; the zero
// time if that is not known.
func (f *facts) stepEnds() time.Time {
	c := f.candidate()
	if c == nil || c.Failed != "" || c.Step < 1 || c.Step > len(f.release.Plan().Steps) {
		return time.Time{}
	}
	if c.Running.IsZero() { // the pause begins when its agents run it
		return time.Time{}
	}
	return c.Running.Add(f.release.Plan().Lasts(c.Step))
}

// overdue is how much later than planned the next step may begin before the status says so.
const overdue = 2 * time.Second

// staysTrue returns how long what the status says of the candidate does so by itself; 0 for
// ever.
func (f *facts) staysTrue(now time.Time) time.Duration {
	end := f.stepEnds()
	if end.IsZero() {
		return 0
	}
	return max(0, end.Add(overdue).Sub(now))
}

// describeCandidate puts the candidate into the status. What agents said of it last stays
// while nobody knows better.
func describeCandidate(s *v1alpha1.LuaScriptStatus, f *facts) {
	before, c := s.Candidate, f.candidate()
	s.Candidate = nil
	if c == nil {
		return
	}
	next := &v1alpha1.CandidateStatus{
		Version: int64(c.Version.Number), State: v1alpha1.CandidateState(f.release.CandidateState()), Reason: spec.Cut(c.Failed),
		Step: int32(c.Step), Steps: int32(len(f.release.Plan().Steps)), Percent: int32(c.Percent), //nolint:gosec // at most 100
	}
	if step, ok := f.release.StepOf(); ok && c.Failed == "" {
		next.Selector, next.By = string(step.Selector), string(step.By)
	}
	if !c.Since.IsZero() {
		at := metav1.NewTime(c.Since).Rfc3339Copy() // as it is read back
		next.Since = &at
	}
	switch t := f.trials(); {
	case t != nil:
		next.Passed, next.Running = int32(t.Passed), int32(t.Running)
		next.Calls, next.FailedCalls = int64(t.Calls), int64(t.FailedCalls) //nolint:gosec // no fleet makes as many
	case before != nil && before.Version == next.Version && before.State == next.State && before.Step == next.Step && before.Since.Equal(next.Since):
		next.Passed, next.Running, next.Calls, next.FailedCalls = before.Passed, before.Running, before.Calls, before.FailedCalls
	}
	s.Candidate = next
}

// callsInterval is how often the calls of a candidate alone are worth a write, or what it waits
// for, such as a gate that names a value: they change all the time, for as long as a step lasts.
const callsInterval = 10 * time.Second

// onlyCalls reports whether nothing changed but how often the candidate was called, and what is said
// of it.
func onlyCalls(before, after *v1alpha1.LuaScriptStatus) bool {
	a, b := before.Candidate, after.Candidate
	if a == nil || b == nil {
		return false
	}
	x, y := *before, *after
	x.LastUpdateTime, y.LastUpdateTime = nil, nil
	x.Candidate, y.Candidate = new(*a), new(*b)
	x.Candidate.Calls, x.Candidate.FailedCalls = b.Calls, b.FailedCalls
	x.Conditions, y.Conditions = withoutMessages(x.Conditions), withoutMessages(y.Conditions)
	return equality.Semantic.DeepEqual(&x, &y)
}

func withoutMessages(conditions []metav1.Condition) []metav1.Condition {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].Message = ""
	}
	return conditions
}

// stage is where on its way a candidate is, and since when; the zero stage is for none.
type stage struct {
	version int64
	state   v1alpha1.CandidateState
	step    int32
	since   int64 // in seconds, as a status has it
}

func stageOf(c *v1alpha1.CandidateStatus) (s stage) {
	if c == nil {
		return s
	}
	s = stage{version: c.Version, state: c.State, step: c.Step}
	if c.Since != nil {
		s.since = c.Since.Unix()
	}
	return s
}

// followCandidate takes note of what became of the candidate, and queues the event for the
// next status write. The status shows what an operator before this one has reported.
func (x *reconciliation) followCandidate() {
	m, f := x.m, &x.facts
	if f.release == nil {
		return
	}
	before := m.stage
	if before == nil {
		before = new(stageOf(m.status(x.ls).Candidate))
	}
	var status v1alpha1.LuaScriptStatus
	describeCandidate(&status, f)
	is := stageOf(status.Candidate)
	m.stage = &is
	if *before == is {
		return
	}
	tell := func(tell func(reason, action, format string, args ...any), reason, action, message string) {
		m.news = append(m.news, func() { tell(reason, action, "%s", message) })
	}
	switch {
	case is.version == 0 && before.version == int64(f.release.Active.Number): //nolint:gosec // the registry's number
		tell(x.note, eventPromoted, "Promote", fmt.Sprintf("version %d was promoted: it is the active one", before.version))
		m.announce = true
	case is.state == v1alpha1.CandidateFailed:
		tell(x.warn, eventCandidateFailed, "Test", f.candidateFailed().message)
		m.measured = true // the time that somebody takes to change it is not the operator's
	case is.step > 0:
		// Each step has its own action: Kubernetes merges events with the same action, and shows
		// only the first message.
		tell(x.note, eventRolloutStep, fmt.Sprintf("Step%d", is.step), f.candidateTruth(x.now).message)
		m.measured = true // nor is that of the steps
	}
}
