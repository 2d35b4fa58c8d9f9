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
		"none":               {script.Plan{}, ""},
		"all":                {script.Plan{Steps: []script.Step{step(1, 0), step(99, script.MaxPause)}, MaxErrorPercent: new(0.0)}, ""},
		"of all calls":       {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(100.0)}, ""},
		"errors of nothing":  {script.Plan{MaxErrorPercent: new(5.0)}, "r.maxErrorPercent"},
		"too many errors":    {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(101.0)}, "r.maxErrorPercent"},
		"fewer than none":    {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(-1.0)}, "r.maxErrorPercent"},
		"evidence":           {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(0.1), MinCalls: new(0), FailureLimit: script.Amount{Percent: 50}, Tolerate: script.Amount{None: true}, ProgressDeadline: script.MaxPause}, ""},
		"calls of nothing":   {script.Plan{Steps: []script.Step{step(1, 0)}, MinCalls: new(5)}, "r.minCalls"},
		"fewer calls":        {script.Plan{Steps: []script.Step{step(1, 0)}, MaxErrorPercent: new(5.0), MinCalls: new(-1)}, "r.minCalls"},
		"no limit":           {script.Plan{Steps: []script.Step{step(1, 0)}, FailureLimit: script.Amount{None: true}}, "r.failureLimit"},
		"limit of nothing":   {script.Plan{FailureLimit: script.Amount{Count: 1}}, "r.failureLimit"},
		"a large limit":      {script.Plan{Steps: []script.Step{step(1, 0)}, FailureLimit: script.Amount{Count: 101}}, "r.failureLimit"},
		"most of them":       {script.Plan{Tolerate: script.Amount{Percent: 51}}, "r.tolerate"},
		"a late deadline":    {script.Plan{ProgressDeadline: script.MaxPause + 1}, "r.progressDeadline"},
		"a pause":            {script.Plan{ProgressDeadline: 1, OnDeadline: script.PauseOnDeadline}, ""},
		"a pause at no time": {script.Plan{OnDeadline: script.PauseOnDeadline}, "r.onDeadline"},
		"another action":     {script.Plan{ProgressDeadline: 1, OnDeadline: "wait"}, "r.onDeadline"},
		"no agents":          {script.Plan{Steps: []script.Step{step(0, 0)}}, "r.steps[0].percent"},
		"all agents":         {script.Plan{Steps: []script.Step{step(100, 0)}}, "r.steps[0].percent"},
		"as many again":      {script.Plan{Steps: []script.Step{step(5, 0), step(5, 0)}}, "r.steps[1].percent"},
		"a long pause":       {script.Plan{Steps: []script.Step{step(5, script.MaxPause+1)}}, "r.steps[0].pause"},
		"too many steps":     {script.Plan{Steps: make([]script.Step, script.MaxSteps+1)}, "r.steps"},
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

func TestAmounts(t *testing.T) {
	for text, want := range map[string]script.Amount{
		"3": {Count: 3}, "0": {None: true}, "5%": {Percent: 5}, "0%": {}, "-1": {}, "many": {}, "1.5": {}, "": {}, "%": {},
	} {
		got, err := script.ParseAmount("f", text)
		if got != want || (err == nil) != (want != script.Amount{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, c := range []struct {
		a       script.Amount
		n, want int
	}{
		{script.Amount{}, 99, 0},
		{script.Amount{}, 10_000, 100},
		{script.Amount{None: true}, 10_000, 0},
		{script.Amount{Count: 3}, 2, 2},
		{script.Amount{Percent: 34}, 3, 1},
	} {
		if got := c.a.Of(c.n, 1); got != c.want {
			t.Errorf("%+v of %d: %d, want %d", c.a, c.n, got, c.want)
		}
	}
}
