package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is how a new version comes to the agents. The zero Plan brings it to all at
// once.
type Plan struct {
	// Steps are gone through one after the other; after the last the version is live
	// everywhere.
	Steps []Step
	// MaxErrorPercent is the share of the candidate's calls in its steps that may fail,
	// in percent, before it is given up; nil means that calls are not looked at. Without
	// Steps there are none to look at.
	MaxErrorPercent *float64
	// MaxErrorIncrease is how many more of the candidate's calls than of the active version's may
	// fail in the same step, in percentage points; nil means that failures are not compared.
	MaxErrorIncrease *float64 `json:",omitempty"`
	// MaxLatencyIncrease is how much slower than the active version the candidate may be in the
	// same step.
	MaxLatencyIncrease LatencyIncrease `json:",omitzero"`
	// MaxDiffPercent is the percentage of shadowed calls whose results may differ from the live ones,
	// or which may fail where the live call did not; nil means that results are not compared. It needs
	// a shadow step.
	MaxDiffPercent *float64 `json:",omitempty"`
	// MinCalls is how many calls of the candidate a step takes as evidence, and of the active
	// version if they are compared, before it passes and before MaxErrorPercent is looked at; nil
	// means DefaultMinCalls. It needs one of the four bounds above.
	MinCalls *int
	// FailureLimit is of how many lost agents the candidate is given up: those that ended, or
	// are not heard any more, while they were to run it. Zero means one agent, or one percent.
	FailureLimit Amount
	// Tolerate is how many agents may have yet to pass the tests, or to run the candidate, when
	// the rollout goes on. Zero means one percent.
	Tolerate Amount
	// ProgressDeadline is how long the candidate may wait, beside its pauses, before OnDeadline
	// applies; 0 means for ever.
	ProgressDeadline time.Duration
	OnDeadline       DeadlineAction `json:",omitempty"`
	// After are scripts of the same tenant. A candidate that has passed its tests waits until none
	// of them has a candidate, and all of them are live.
	After []Name `json:",omitempty"`
	// Key is where the steps by key take the keys of requests from. Without it, calls carry their keys.
	Key KeySource `json:",omitempty"`
}

// DeadlineAction is what happens to a candidate at its ProgressDeadline.
type DeadlineAction string

// The actions.
const (
	AbortOnDeadline DeadlineAction = ""      // it is given up
	PauseOnDeadline DeadlineAction = "pause" // it stays in its step until a person approves, promotes, retries or aborts it
)

// ParseDeadlineAction reads "abort" or "pause"; field is its path.
func ParseDeadlineAction(field, text string) (DeadlineAction, error) {
	switch text {
	case "abort":
		return AbortOnDeadline, nil
	case string(PauseOnDeadline):
		return PauseOnDeadline, nil
	}
	return "", Errorf(Invalid, field, "%.80q is neither abort nor pause", text)
}

// Amount is a number of agents, or a percentage of them, or None of them; the zero Amount says
// neither.
type Amount struct {
	Count, Percent int
	None           bool
}

// ParseAmount reads "3", or "5%"; field is its path, such as "spec.rollout.tolerate".
func ParseAmount(field, text string) (Amount, error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 0 || percent && n == 0:
		return Amount{}, Errorf(Invalid, field, "%.80q is neither a number of agents, such as 3, nor a percentage of them, such as 5%%", text)
	case percent:
		return Amount{Percent: n}, nil
	case n == 0:
		return Amount{None: true}, nil
	}
	return Amount{Count: n}, nil
}

// IsZero reports whether it says neither.
func (a Amount) IsZero() bool { return a == Amount{} }

// Of returns the number that it is of n agents, rounded down; orPercent is the percentage that
// stands for the zero Amount.
func (a Amount) Of(n, orPercent int) int {
	switch {
	case a.IsZero():
		return n * orPercent / 100
	case a.Percent > 0:
		return n * a.Percent / 100
	}
	return min(a.Count, n)
}

// String is "3", or "3 %".
func (a Amount) String() string {
	if a.Percent > 0 {
		return fmt.Sprintf("%d %%", a.Percent)
	}
	return fmt.Sprint(a.Count)
}

// IsZero reports whether the plan brings a version to all agents at once, and looks at nothing.
func (p Plan) IsZero() bool { return p.Equal(Plan{}) }

// Compares reports whether the plan compares a candidate with the active version.
func (p Plan) Compares() bool { return p.MaxErrorIncrease != nil || !p.MaxLatencyIncrease.IsZero() }

// LooksAtCalls reports whether calls decide what becomes of a candidate.
func (p Plan) LooksAtCalls() bool {
	return p.MaxErrorPercent != nil || p.MaxDiffPercent != nil || p.Compares()
}

// Calls returns how many calls a step takes as evidence; 0 if calls are not looked at.
func (p Plan) Calls() uint64 {
	switch {
	case !p.LooksAtCalls():
		return 0
	case p.MinCalls == nil:
		return DefaultMinCalls
	}
	return uint64(*p.MinCalls) //nolint:gosec // a plan that is valid has none below 0
}

// Step of a Plan makes a candidate live on some of the agents.
type Step struct {
	// Percent of the agents, rounded up: of those with the labels of Selector, if it has one. It
	// grows from step to step of the same Selector. 0 takes all that have the labels.
	//
	// Or of the keys of calls, or of the calls that it shadows, on all agents that Selector selects.
	Percent int
	By      By `json:",omitempty"`
	// Selector says which agents the step takes; the zero AgentSelector any.
	Selector AgentSelector `json:",omitempty"`
	// Pause is how long the step lasts at least, from when the agents were chosen.
	Pause time.Duration
	// Approval: the step passes only once somebody approves it.
	Approval bool
	// Gate is asked when all else has passed, and the step passes only if it says so.
	Gate Gate `json:",omitzero"`
}

// Bounds of a plan.
const (
	MaxSteps = 10
	MaxPause = 7 * 24 * time.Hour

	DefaultMinCalls = 20
	MaxMinCalls     = 1_000_000
	MaxFailureLimit = 100 // agents that are counted, whatever the percentage

	MaxLatencyIncrease = 1000 // percent
)

// Validate returns an Invalid error that names the first field that is wrong; field is
// the path of p itself, such as "spec.rollout".
func (p Plan) Validate(field string) error {
	if len(p.Steps) > MaxSteps {
		return Errorf(Invalid, field+".steps", "%d are too many: at most %d are allowed", len(p.Steps), MaxSteps)
	}
	for i, s := range p.Steps {
		at := elementOf(field+".steps", i)
		if err := s.validateShare(at, p.Steps[:i]); err != nil {
			return err
		}
		if s.Pause < 0 || s.Pause > MaxPause {
			return Errorf(Invalid, at+".pause", "%v is not between 0 and the maximum, %v", s.Pause, MaxPause)
		}
		if err := s.Gate.validate(at + ".gate"); err != nil {
			return err
		}
	}
	if err := p.validateKey(field + ".key"); err != nil {
		return err
	}
	if err := p.validateBounds(field); err != nil {
		return err
	}
	if err := p.validateAfter(field + ".after"); err != nil {
		return err
	}
	return p.validateEvidence(field)
}

// validateShare refuses a step that takes none, or no more than the steps before it.
func (s Step) validateShare(at string, before []Step) error {
	if err := s.validateBy(at, before); err != nil {
		return err
	}
	switch {
	case s.By == ByShadow, s.Selector != "" && s.Percent == 0:
	case s.Percent < 1 || s.Percent > 99:
		return Errorf(Invalid, at+".percent", "%d is not between 1 and 99; after the last step all agents run the version", s.Percent)
	}
	for i, b := range before {
		switch {
		case b.By == ByAgent && b.Selector != "" && b.Percent == 0 && s.Selector != "" && s.Selector.Within(b.Selector):
			return Errorf(Invalid, at+".selector", "all agents with %s run the version since step %d: leave the step out", s.Selector, i+1)
		case s.By == b.By && b.Selector == s.Selector && s.Percent != 0 && s.Percent <= b.Percent:
			if s.Selector == "" {
				return Errorf(Invalid, at+".percent", "%d is not more than %d, the percent of the step before", s.Percent, b.Percent)
			}
			return Errorf(Invalid, at+".percent", "%d is not more than %d, the percent of step %d with the same selector", s.Percent, b.Percent, i+1)
		}
	}
	return nil
}

// validateBounds looks at what bounds the candidate's calls.
func (p Plan) validateBounds(field string) error {
	for _, bound := range []struct {
		field string
		value *float64
	}{{".maxErrorPercent", p.MaxErrorPercent}, {".maxErrorIncrease", p.MaxErrorIncrease}, {".maxDiffPercent", p.MaxDiffPercent}} {
		switch m := bound.value; {
		case m == nil:
		case !(*m >= 0 && *m <= 100): // nor not a number
			return Errorf(Invalid, field+bound.field, "%v is not between 0 and 100", *m)
		case len(p.Steps) == 0:
			return needsSteps(field + bound.field)
		}
	}
	if p.MaxDiffPercent != nil && !p.Shadows() {
		return Errorf(Invalid, field+".maxDiffPercent", "needs a shadow step, such as {shadow: 5, pause: 10m}: only there are results compared")
	}
	for name, percent := range p.MaxLatencyIncrease.Compared() {
		if percent < 0 || percent > MaxLatencyIncrease {
			return Errorf(Invalid, field+".maxLatencyIncrease."+name, "%d %% is not between 1 %% and %d %%", percent, MaxLatencyIncrease)
		}
	}
	if !p.MaxLatencyIncrease.IsZero() && len(p.Steps) == 0 {
		return needsSteps(field + ".maxLatencyIncrease")
	}
	return nil
}

func needsSteps(field string) error {
	return Errorf(Invalid, field, "needs steps: only while some of the agents run the new version are its calls looked at")
}

func (p Plan) validateEvidence(field string) error {
	switch m := p.MinCalls; {
	case m == nil:
	case *m < 0 || *m > MaxMinCalls:
		return Errorf(Invalid, field+".minCalls", "%d is not between 0 and %d", *m, MaxMinCalls)
	case !p.LooksAtCalls():
		return Errorf(Invalid, field+".minCalls", "needs maxErrorPercent, maxErrorIncrease, maxDiffPercent or maxLatencyIncrease: without them calls are not looked at")
	}
	if err := p.FailureLimit.validate(field+".failureLimit", 1, MaxFailureLimit); err != nil {
		return err
	}
	if !p.FailureLimit.IsZero() && len(p.Steps) == 0 {
		return Errorf(Invalid, field+".failureLimit", "needs steps: only while some of the agents run the new version can they be lost")
	}
	if err := p.Tolerate.validate(field+".tolerate", 0, 1_000_000); err != nil {
		return err
	}
	if p.ProgressDeadline < 0 || p.ProgressDeadline > MaxPause {
		return Errorf(Invalid, field+".progressDeadline", "%v is not between 0 and the maximum, %v", p.ProgressDeadline, MaxPause)
	}
	switch {
	case p.OnDeadline != AbortOnDeadline && p.OnDeadline != PauseOnDeadline:
		return Errorf(Invalid, field+".onDeadline", "%.80q is neither abort nor pause", string(p.OnDeadline))
	case p.OnDeadline == PauseOnDeadline && p.ProgressDeadline == 0:
		return Errorf(Invalid, field+".onDeadline", "needs progressDeadline: without it, a candidate waits for as long as it takes")
	}
	return nil
}

func (a Amount) validate(field string, least, most int) error {
	switch {
	case a.IsZero():
	case a.None && (least > 0 || a.Count != 0 || a.Percent != 0):
		return Errorf(Invalid, field, "0 is not between %d and %d agents", least, most)
	case a.Percent < 0 || a.Percent > 50:
		return Errorf(Invalid, field, "%d %% is not between 1 %% and 50 %%", a.Percent)
	case a.Percent == 0 && (a.Count < least || a.Count > most):
		return Errorf(Invalid, field, "%d is not between %d and %d agents", a.Count, least, most)
	}
	return nil
}

// countingStep is the least time that a step lasts whose calls are looked at: agents
// report them every five seconds.
const countingStep = 10 * time.Second

// Lasts returns how long the step with the number, from 1, lasts at least.
func (p Plan) Lasts(step int) time.Duration {
	pause := p.Steps[step-1].Pause
	if p.LooksAtCalls() {
		return max(pause, countingStep)
	}
	return pause
}

// Equal reports whether the plans are the same.
func (p Plan) Equal(q Plan) bool {
	return sameNumber(p.MaxErrorPercent, q.MaxErrorPercent) && sameNumber(p.MaxDiffPercent, q.MaxDiffPercent) && sameNumber(p.MaxErrorIncrease, q.MaxErrorIncrease) &&
		p.MaxLatencyIncrease == q.MaxLatencyIncrease && sameNumber(p.MinCalls, q.MinCalls) && p.FailureLimit == q.FailureLimit &&
		p.Tolerate == q.Tolerate && p.ProgressDeadline == q.ProgressDeadline && p.OnDeadline == q.OnDeadline && slices.Equal(p.Steps, q.Steps) && slices.Equal(p.After, q.After) && p.Key == q.Key
}

func sameNumber[N int | float64](a, b *N) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func elementOf(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
