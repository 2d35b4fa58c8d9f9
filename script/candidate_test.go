package script_test

import (
	"errors"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

func TestCandidateState(t *testing.T) {
	tests := make([]script.Test, 1)
	steps := script.Plan{Steps: []script.Step{{Percent: 10}}}
	for name, test := range map[string]struct {
		candidate *script.Candidate
		settings  script.Settings
		want      script.CandidateState
	}{
		"none":              {nil, script.Settings{Spec: script.Spec{Tests: tests}, Rollout: steps}, ""},
		"tested":            {&script.Candidate{}, script.Settings{Spec: script.Spec{Tests: tests}}, script.CandidateTesting},
		"tested, steps yet": {&script.Candidate{}, script.Settings{Spec: script.Spec{Tests: tests}, Rollout: steps}, script.CandidateTesting},
		"without tests":     {&script.Candidate{}, script.Settings{Rollout: steps}, script.CandidateRollingOut},
		"in a step":         {&script.Candidate{Step: 1}, script.Settings{Spec: script.Spec{Tests: tests}, Rollout: steps}, script.CandidateRollingOut},
		"failed its tests":  {&script.Candidate{Failed: "no"}, script.Settings{Spec: script.Spec{Tests: tests}}, script.CandidateFailed},
		"failed in a step":  {&script.Candidate{Step: 1, Failed: "no"}, script.Settings{Rollout: steps}, script.CandidateFailed},
	} {
		r := script.Release{Candidate: test.candidate, Settings: test.settings}
		if r.Candidate != nil {
			r.Candidate.Spec = r.Settings.Spec
		}
		if got := r.CandidateState(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestPlanValidate(t *testing.T) {
	step := func(percent int, pause time.Duration) script.Step {
		return script.Step{Percent: percent, Pause: pause}
	}
	for name, test := range map[string]struct {
		plan  script.Plan
		field string // that the error blames; "" for none
	}{
		"none":              {script.Plan{}, ""},
		"all":               {script.Plan{Steps: []script.Step{step(1, 0), step(99, script.MaxPause)}, MaxErrorPercent: new(0)}, ""},
		"of all calls":      {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(100)}, ""},
		"errors of nothing": {script.Plan{MaxErrorPercent: new(5)}, "r.maxErrorPercent"},
		"too many errors":   {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(101)}, "r.maxErrorPercent"},
		"fewer than none":   {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(-1)}, "r.maxErrorPercent"},
		"no agents":         {script.Plan{Steps: []script.Step{step(0, 0)}}, "r.steps[0].percent"},
		"all agents":        {script.Plan{Steps: []script.Step{step(100, 0)}}, "r.steps[0].percent"},
		"as many again":     {script.Plan{Steps: []script.Step{step(5, 0), step(5, 0)}}, "r.steps[1].percent"},
		"a long pause":      {script.Plan{Steps: []script.Step{step(5, script.MaxPause+1)}}, "r.steps[0].pause"},
		"too many steps":    {script.Plan{Steps: make([]script.Step, script.MaxSteps+1)}, "r.steps"},
	} {
		err := test.plan.Validate("r")
		e, _ := errors.AsType[*script.Error](err)
		switch {
		case test.field == "" && err != nil:
			t.Errorf("%s: %v, want no error", name, err)
		case test.field != "" && (e == nil || e.Kind != script.Invalid || e.Field != test.field):
			t.Errorf("%s: %v, want an Invalid %s", name, err, test.field)
		}
	}
}
