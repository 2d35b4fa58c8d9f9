package script

import (
	"fmt"
	"slices"
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
	MaxErrorPercent *int
}

// Step of a Plan makes a candidate live on some of the agents.
type Step struct {
	Percent int // of the agents, rounded up; grows from step to step
	// Pause is how long the step lasts at least, from when the agents were chosen.
	Pause time.Duration
}

// Bounds of a plan.
const (
	MaxSteps = 10
	MaxPause = 7 * 24 * time.Hour
)

// Validate returns an Invalid error that names the first field that is wrong; field is
// the path of p itself, such as "spec.rollout".
func (p Plan) Validate(field string) error {
	if len(p.Steps) > MaxSteps {
		return Errorf(Invalid, field+".steps", "%d are too many: at most %d are allowed", len(p.Steps), MaxSteps)
	}
	before := 0
	for i, s := range p.Steps {
		at := elementOf(field+".steps", i)
		switch {
		case s.Percent < 1 || s.Percent > 99:
			return Errorf(Invalid, at+".percent", "%d is not between 1 and 99; after the last step all agents run the version", s.Percent)
		case s.Percent <= before:
			return Errorf(Invalid, at+".percent", "%d is not more than that of the step before, %d", s.Percent, before)
		case s.Pause < 0 || s.Pause > MaxPause:
			return Errorf(Invalid, at+".pause", "%v is not between 0 and the maximum, %v", s.Pause, MaxPause)
		}
		before = s.Percent
	}
	switch m := p.MaxErrorPercent; {
	case m == nil:
	case *m < 0 || *m > 100:
		return Errorf(Invalid, field+".maxErrorPercent", "%d is not between 0 and 100", *m)
	case len(p.Steps) == 0:
		return Errorf(Invalid, field+".maxErrorPercent", "needs steps: only while some of the agents run the new version are its calls looked at")
	}
	return nil
}

// countingStep is the least time that a step lasts whose calls are looked at: agents
// report them every five seconds.
const countingStep = 10 * time.Second

// Lasts returns how long the step with the number, from 1, lasts at least.
func (p Plan) Lasts(step int) time.Duration {
	pause := p.Steps[step-1].Pause
	if p.MaxErrorPercent != nil {
		return max(pause, countingStep)
	}
	return pause
}

// Equal reports whether the plans are the same.
func (p Plan) Equal(q Plan) bool {
	same := p.MaxErrorPercent == nil && q.MaxErrorPercent == nil ||
		p.MaxErrorPercent != nil && q.MaxErrorPercent != nil && *p.MaxErrorPercent == *q.MaxErrorPercent
	return same && slices.Equal(p.Steps, q.Steps)
}

func elementOf(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
