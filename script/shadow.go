package script

import (
	"math"
	"slices"
)

// Shadows reports whether the plan has a shadow step.
func (p Plan) Shadows() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.By == ByShadow })
}

// validateShadow refuses a shadow step that shadows no more calls than the steps before it, or that
// follows a step that makes the candidate live.
func (s Step) validateShadow(at string, before []Step) error {
	if s.Percent < 1 || s.Percent > 100 {
		return Errorf(Invalid, at+".shadow", "%d is not between 1 and 100, the percentage of the calls", s.Percent)
	}
	for i, b := range before {
		switch {
		case b.By != ByShadow:
			return Errorf(Invalid, at+".shadow", "step %d makes the version live on some agents: put the shadow steps before it", i+1)
		case s.Percent <= b.Percent && s.Selector.Within(b.Selector):
			return Errorf(Invalid, at+".shadow", "%d is not more than %d, the percentage of step %d", s.Percent, b.Percent, i+1)
		}
	}
	return nil
}

// ShadowThreshold returns the threshold of the random numbers of so many percent of the calls.
func ShadowThreshold(percent int) uint32 {
	return uint32(min(uint64(max(percent, 0))<<32/100, math.MaxUint32)) //nolint:gosec // not below 0
}

// ShadowsOn returns the threshold of the random numbers whose calls the agent shadows; 0 if it shadows
// none.
func (c *Candidate) ShadowsOn(name Name, agent Agent) (threshold uint32) {
	if len(c.Shadows) == 0 || c.Selects(name, agent) || c.KeysOn(name, agent) > 0 {
		return 0
	}
	for _, s := range c.Shadows {
		if s.Selector.Matches(agent.Labels) {
			threshold = max(threshold, s.Threshold)
		}
	}
	return threshold
}

// ShadowsOn returns Candidate.ShadowsOn of the release's candidate; 0 if there is none, or no live
// version to shadow.
func (r *Release) ShadowsOn(agent Agent) uint32 {
	if r.Candidate == nil || r.Untried() {
		return 0
	}
	return r.Candidate.ShadowsOn(r.Name, agent)
}

// SplitsOn reports whether the agent runs both versions: the candidate for a part of the calls.
func (r *Release) SplitsOn(agent Agent) bool { return r.KeysOn(agent) > 0 || r.ShadowsOn(agent) > 0 }

// ShadowCalls counts what agents found in the shadow of calls, in one step.
type ShadowCalls struct {
	Step int
	// Equal results are the same as the live ones, or as those of the active version when it runs again
	// in the same conditions. Different ones are not. Failed calls of the candidate have a live call that
	// did not fail.
	Equal, Different, Failed uint64
	// Slower calls took at least twice as long as those of the active version. They are also counted
	// above.
	Slower uint64
	// Dropped calls were to be shadowed, and the agent had no room or no time for them.
	Dropped uint64
}

// Compared is how many calls were compared.
func (s ShadowCalls) Compared() uint64 { return s.Equal + s.Different + s.Failed }

// Add adds the counts of another agent.
func (s *ShadowCalls) Add(o ShadowCalls) {
	s.Equal += o.Equal
	s.Different += o.Different
	s.Failed += o.Failed
	s.Slower += o.Slower
	s.Dropped += o.Dropped
}

// Remove takes away counts that were added.
func (s *ShadowCalls) Remove(o ShadowCalls) {
	s.Equal -= o.Equal
	s.Different -= o.Different
	s.Failed -= o.Failed
	s.Slower -= o.Slower
	s.Dropped -= o.Dropped
}
