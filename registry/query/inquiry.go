package query

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// inquiry is a query in progress.
type inquiry struct {
	query       *eventv1.Query
	caller      string
	incarnation string // as in Question
	bytes       int64  // that it reserves
	each        int64  // bytes that an agent may send
	take        func(Part)
	done        chan struct{} // closed when no agent is pending

	mu      sync.Mutex
	ended   bool
	left    int64                    // bytes that may still come
	pending map[string]*pendingAgent // agents without a complete answer
	result  Result
}

// pendingAgent is an agent without a complete answer.
type pendingAgent struct {
	identity string
	next     uint32 // number of the next part
	bytes    int64  // received
}

// handle accepts or rejects a part that the session signed, and returns the outcome.
func (in *inquiry) handle(of *session.Session, m *eventv1.Answer) outcome {
	in.mu.Lock()
	defer in.mu.Unlock()
	agent := in.pending[of.Agent]
	switch {
	case in.ended || agent == nil:
		return unexpected
	case m.GetFleet() != in.query.GetFleet() || m.GetAgent() != of.Agent || agent.identity != of.Identity:
		return otherSession
	case !in.isFor(of.Incarnation):
		return otherSession
	case in.query.GetTenant() != "" && !of.Tenants.Matches(in.query.GetTenant()):
		return otherSession
	case m.GetNumber() < agent.next:
		return duplicate
	case m.GetNumber() > agent.next:
		in.fail(of.Agent, script.Errorf(script.Unavailable, "", "a part of its answer was lost on the way"))
		return incomplete
	}
	size := wire.AnswerBytes(m)
	agent.next++
	agent.bytes += size
	if agent.bytes > in.each+slack {
		in.fail(of.Agent, script.Errorf(script.Limit, "", "it sent more than the %d bytes that it may", in.each))
		return tooLarge
	}
	if in.left -= size; in.left < 0 {
		in.fail(of.Agent, script.Errorf(script.Limit, "", "all answers together have more than %d bytes: ask fewer agents", in.bytes))
		return tooLarge
	}
	if m.GetKind() != nil {
		in.take(Part{Agent: of.Agent, Tenants: of.Tenants, Answer: m})
	}
	if m.GetLast() {
		in.last(of.Agent, m)
	}
	return taken
}

// isFor reports whether an agent of the incarnation can answer.
func (in *inquiry) isFor(incarnation string) bool {
	return in.incarnation == "" || in.incarnation == incarnation
}

// slack allows for agents that count bytes differently.
const slack = 1 << 10

// last handles the last part of an answer.
func (in *inquiry) last(agent string, m *eventv1.Answer) {
	switch {
	case m.GetUnknownKind():
		in.result.Older = append(in.result.Older, agent)
	case m.GetError() != nil:
		in.fail(agent, readError(wire.ToError(m.GetError())))
		return
	default:
		in.result.Answered = append(in.result.Answered, agent)
	}
	in.finish(agent)
}

// fail records that the agent has no complete answer.
func (in *inquiry) fail(agent string, err error) {
	in.result.Failed = append(in.result.Failed, Failure{Agent: agent, Err: script.AsError(err)})
	in.finish(agent)
}

// finish removes the agent from pending.
func (in *inquiry) finish(agent string) {
	delete(in.pending, agent)
	if len(in.pending) == 0 {
		close(in.done)
	}
}

// dropDisconnected stops waiting for agents that are no longer connected, and for agents that have started again, if the
// question is for one incarnation.
func (in *inquiry) dropDisconnected(connected []Target) {
	there := make(map[string]bool, len(connected))
	for _, t := range connected {
		there[t.Agent] = in.isFor(t.Incarnation)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for agent := range in.pending {
		if !there[agent] {
			in.result.Silent, in.result.Gone = append(in.result.Silent, agent), append(in.result.Gone, agent)
			in.finish(agent)
		}
	}
}

// end returns the result. Later parts are unexpected.
func (in *inquiry) end() Result {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	r := in.result
	r.Silent = slices.AppendSeq(r.Silent, maps.Keys(in.pending))
	slices.Sort(r.Silent)
	slices.Sort(r.Gone)
	slices.Sort(r.Answered)
	slices.Sort(r.Older)
	slices.SortFunc(r.Failed, func(a, b Failure) int { return cmp.Compare(a.Agent, b.Agent) })
	return r
}

// Bounds of the texts of an agent's error, in bytes.
const (
	maxErrorText = 1024
	maxKindText  = 32
)

// readError bounds the texts of an error, which are not trusted, and removes control characters.
func readError(e *script.Error) *script.Error {
	return &script.Error{
		Kind: script.Kind(readText(string(e.Kind), maxKindText)), Field: readText(e.Field, maxErrorText), Message: readText(e.Message, maxErrorText),
	}
}

func readText(s string, most int) string {
	s = strings.ToValidUTF8(s[:min(len(s), most)], "")
	return strings.Map(func(r rune) rune {
		if !isText(r) {
			return ' '
		}
		return r
	}, s)
}
