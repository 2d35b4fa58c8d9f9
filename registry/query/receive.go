package query

import (
	"sync/atomic"
	"unicode"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/session"
)

// maxMessage bounds a message with a part of an answer, in bytes. Agents send parts of at most 256 KiB, plus the
// envelope.
const maxMessage = 512 << 10

// Sessions verify answers.
type Sessions interface {
	// Key returns the key of the session with the token.
	Key(token []byte) ([]byte, error)
}

// outcome is the outcome of a message: the value of the metric's label.
type outcome string

const (
	taken        outcome = "taken"
	unexpected   outcome = "unexpected"    // late, or for another replica: no query here waits for it
	duplicate    outcome = "doubled"       // the part was received before
	incomplete   outcome = "incomplete"    // an earlier part is missing
	tooLarge     outcome = "too_large"     // the agent sent more than its limit
	forged       outcome = "forged"        // not signed by a session of this registry
	otherSession outcome = "other_session" // the session that signed it may not answer this query
	malformed    outcome = "malformed"
)

// outcomes are all outcomes.
var outcomes = []outcome{taken, unexpected, duplicate, incomplete, tooLarge, forged, otherSession, malformed}

// counts has the number of messages by outcome. The map does not change.
type counts map[outcome]*atomic.Uint64

func newCounts() counts {
	c := counts{}
	for _, o := range outcomes {
		c[o] = &atomic.Uint64{}
	}
	return c
}

// Outcomes returns the names of all outcomes of messages.
func Outcomes() []string {
	names := make([]string, len(outcomes))
	for i, o := range outcomes {
		names[i] = string(o)
	}
	return names
}

// Count returns the number of messages with the outcome since the start.
func (a *Asker) Count(of string) uint64 {
	if n := a.counts[outcome(of)]; n != nil {
		return n.Load()
	}
	return 0
}

// InProgress returns the number of queries that wait for answers.
func (a *Asker) InProgress() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queries)
}

// receive handles a message on the subject of the agent, and counts its outcome.
func (a *Asker) receive(agent string, data []byte) {
	a.counts[a.handle(agent, data)].Add(1)
}

func (a *Asker) handle(agent string, data []byte) outcome {
	if len(data) > maxMessage {
		return malformed
	}
	if !a.awaits(agent) { // it may be for another replica: do not spend time on its signature
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
	return in.handle(&of, &m)
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
	return in.pending[agent] != nil
}

func isText(r rune) bool { return r == '\n' || unicode.IsGraphic(r) }
