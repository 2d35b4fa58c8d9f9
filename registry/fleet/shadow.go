package fleet

import "github.com/scriptorium-dev/scriptorium/script"

// shadowing adds up what agents found in the shadow of calls in one step.
type shadowing struct {
	calls script.ShadowCalls
	by    map[*agent]script.ShadowCalls // processes that have not ended
}

// sizeOfShadow is about how many bytes shadowing.by takes for each agent.
const sizeOfShadow = 96

// shadows begins to count anew at each shadow step.
func (c *candidacy) shadows(r *script.Release) {
	step, _ := r.StepOf()
	number := r.Candidate.Step
	switch {
	case step.By != script.ByShadow || r.Candidate.Failed != "":
		c.dropShadow()
	case c.shadow == nil || c.shadow.calls.Step != number:
		c.dropShadow()
		c.shadow = &shadowing{calls: script.ShadowCalls{Step: number}, by: map[*agent]script.ShadowCalls{}}
	}
}

func (c *candidacy) dropShadow() {
	if c.shadow != nil {
		for a := range c.shadow.by {
			c.keep(a, -sizeOfShadow)
		}
		c.shadow = nil
	}
}

// counts reports whether what the agent found is of the step.
func (s *shadowing) counts(found *script.ShadowCalls) bool {
	return s != nil && found != nil && found.Step == s.calls.Step
}

// shadowBytes is how many bytes more the candidacy keeps for what the agent found.
func (c *candidacy) shadowBytes(a *agent, found *script.ShadowCalls) int {
	if !c.shadow.counts(found) {
		return 0
	}
	if _, ok := c.shadow.by[a]; ok {
		return 0
	}
	return sizeOfShadow
}

// shadowed replaces what the agent found before, and reports whether that is news.
func (c *candidacy) shadowed(a *agent, found *script.ShadowCalls) bool {
	if !c.shadow.counts(found) || !c.members.has(a.slot) {
		return false
	}
	before := c.shadow.by[a]
	if before == *found {
		return false
	}
	c.shadow.calls.Add(*found)
	c.shadow.calls.Remove(before)
	c.shadow.by[a] = *found
	return true
}

// shadowable reports whether an agent that found others before, if that was the same incarnation, can
// have found these in so many calls.
func (c *candidacy) shadowable(a *agent, found *script.ShadowCalls, again bool, most uint64) bool {
	if !c.shadow.counts(found) {
		return true
	}
	before := c.shadow.by[a]
	return found.Compared() <= most && found.Dropped <= most &&
		(!again || found.Compared() >= before.Compared() && found.Different >= before.Different && found.Failed >= before.Failed)
}
