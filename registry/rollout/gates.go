package rollout

import (
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/gate"
	"github.com/scriptorium-dev/scriptorium/script"
)

// freshFor is how long after a gate was asked its pass counts.
const freshFor = 30 * time.Second

// atGate says what becomes of a candidate that has all that its step takes but for the gate; lasts
// is false if that has passed, or if there is none.
func atGate(c fleet.Candidacy, g script.Gate, now time.Time) (_ Decision, lasts bool) {
	if g.IsZero() {
		return Decision{}, false
	}
	d := wait("gate %s has yet to answer", g)
	if a := answered(c); a != nil {
		age := now.Sub(a.At)
		switch {
		case a.Result == fleet.GatePasses && !a.Remembered && age >= 0 && age < freshFor:
			return Decision{}, false
		case a.Result == fleet.GateAborts && !a.Remembered:
			return fail(gateSays(g, a)), true
		case a.Result != fleet.GatePasses:
			d = wait("%s", gateSays(g, a))
		case !a.Remembered:
			// Its pass is too old. If the candidate could not go on with it, what it waited for may
			// still be missing: the gate is asked when that is there.
			if next := onward(c); next.Why != "" {
				return next, true
			}
		}
	}
	d.Ask = true
	return d, true
}

// answered returns what the gate of the candidate's step has said last in this attempt; nil if that
// is nothing.
func answered(c fleet.Candidacy) *fleet.GateAnswer {
	candidate := c.Release.Candidate
	if a := c.Gate; a != nil && a.Attempt == candidate.Attempt && a.Step == candidate.Step {
		return a
	}
	return nil
}

func gateSays(g script.Gate, a *fleet.GateAnswer) string { return "gate " + g.String() + ": " + a.Text }

// passed is what the gate said that let the candidate pass its step; "" if none did.
func passed(c fleet.Candidacy) string {
	a := answered(c)
	step, ok := c.Release.StepOf()
	if !ok || step.Gate.IsZero() || a == nil || a.Remembered || a.Result != fleet.GatePasses {
		return ""
	}
	return gateSays(step.Gate, a)
}

// question is what the gate of the candidate's step is asked.
func question(c *fleet.Candidacy) gate.Question {
	candidate := c.Release.Candidate
	step, _ := c.Release.StepOf()
	return gate.Question{
		Name: c.Release.Name, Gate: step.Gate,
		Version: candidate.Version.Number, Digest: candidate.Version.Digest, Active: c.Release.Active.Number,
		Attempt: candidate.Attempt, Tries: max(1, candidate.Tries), Step: candidate.Step,
	}
}
