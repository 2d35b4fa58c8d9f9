package scriptorium

import "testing"

// TestAnOldTimerEndsNoAgent: a timer that a later release has replaced, and that fired before it was
// stopped, leaves the agent to the later one.
func TestAnOldTimerEndsNoAgent(t *testing.T) {
	s := &shared{releases: 2}
	p := pool{agents: map[string]*shared{"a": s}}
	p.expire("a", s, 1)
	if p.agents["a"] != s {
		t.Error("the timer of the first release has ended the agent")
	}
}
