package query

import (
	"sync/atomic"
	"unicode"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/session"
)

// maxMessage is how many bytes a message with a part of an answer may have: agents send 256 KiB and what
// comes around it.
const maxMessage = 512 << 10

// Sessions verify answers.
type Sessions interface {
	// Key returns the key of the session with the token.
	Key(token []byte) ([]byte, error)
}

// outcome is what became of a message: the value of the metric's label.
type outcome string

const (
	taken        outcome = "taken"
	unexpected   outcome = "unexpected"    // it is late, or for another replica: no query here waits for it
	doubled      outcome = "doubled"       // the part came before
	incomplete   outcome = "incomplete"    // a part before it is missing
	tooLarge     outcome = "too_large"     // the agent sends more than it may
	forged       outcome = "forged"        // no session of ours has signed it
	otherSession outcome = "other_session" // the agent's session may not say that
	malformed    outcome = "malformed"
)

// outcomes are all of them.
var outcomes = []outcome{taken, unexpected, doubled, incomplete, tooLarge, forged, otherSession, malformed}

// counts are how many messages had each outcome. The map does not change.
type counts map[outcome]*atomic.Uint64

func newCounts() counts {
	c := counts{}
	for _, o := range outcomes {
		c[o] = &atomic.Uint64{}
	}
	return c
}

// Outcomes are what can become of a message of an agent.
func Outcomes() []string {
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i] = string(o)
	}
	return names
}

// Count returns how many messages had the outcome since the start.
func (a *Asker) Count(of string) uint64 {
	if n := a.counts[outcome(of)]; n != nil {
		return n.Load()
	}
	return 0
}

// InProgress returns how many queries wait for answers.
func (a *Asker) InProgress() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queries)
}

// receive takes a message that came on the subject of the agent.
func (a *Asker) receive(agent string, data []byte) {
	a.counts[a.hear(agent, data)].Add(1)
}

func (a *Asker) hear(agent string, data []byte) outcome {
	if len(data) > maxMessage {
		return malformed
	}
	if !a.awaits(agent) { // nobody pays for its verification: it may be for another replica
		return unexpected
	}
	opened, err := seal.OpenAnswer(data, a.cfg.Sessions.Key)
	if err != nil {
		a.cfg.Log.Debug("an answer of an agent is not believed", "agent", agent, "error", err)
		return forged
	}
	of, err := session.Read(opened.Token)
	if err != nil {
		return malformed
	}
	if of.Agent != agent {
		return otherSession
	}
	var m eventv1.Answer
	if err := opened.Decode(&m); err != nil {
		return malformed
	}
	a.mu.Lock()
	in := a.queries[m.GetId()]
	a.mu.Unlock()
	if in == nil {
		return unexpected
	}
	return in.hear(&of, &m)
}

// awaits reports whether a query in progress waits for the agent.
func (a *Asker) awaits(agent string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, in := range a.queries {
		if in.awaits(agent) {
			return true
		}
	}
	return false
}

func (in *inquiry) awaits(agent string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.waiting[agent] != nil
}

func isText(r rune) bool { return r == '\n' || unicode.IsGraphic(r) }
