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

// inquiry is a query whose answers are awaited.
type inquiry struct {
	query  *eventv1.Query
	caller string
	bytes  int64 // that it reserves
	each   int64 // bytes that an agent may send
	take   func(Part)
	done   chan struct{} // closed when nobody is waited for

	mu      sync.Mutex
	ended   bool
	left    int64             // bytes
	waiting map[string]*asked // agents that have not answered wholly
	result  Result
}

// asked is an agent that has not answered wholly.
type asked struct {
	identity string
	next     uint32 // part
	bytes    int64
}

// hear takes a part that the session has signed, and says what became of it.
func (in *inquiry) hear(of *session.Session, m *eventv1.Answer) outcome {
	in.mu.Lock()
	defer in.mu.Unlock()
	agent := in.waiting[of.Agent]
	switch {
	case in.ended || agent == nil:
		return unexpected
	case m.GetFleet() != in.query.GetFleet() || m.GetAgent() != of.Agent || agent.identity != of.Identity:
		return otherSession
	case in.query.GetTenant() != "" && !of.Tenants.Matches(in.query.GetTenant()):
		return otherSession
	case m.GetNumber() < agent.next:
		return doubled
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

// slack is what an agent may count differently.
const slack = 1 << 10

// last takes in how an answer ends.
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
	in.leave(agent)
}

// fail notes that the agent has no whole answer.
func (in *inquiry) fail(agent string, err error) {
	in.result.Failed = append(in.result.Failed, Failure{Agent: agent, Err: script.AsError(err)})
	in.leave(agent)
}

// leave has nobody wait for the agent any more.
func (in *inquiry) leave(agent string) {
	delete(in.waiting, agent)
	if len(in.waiting) == 0 {
		close(in.done)
	}
}

// keep waits for none that are not connected any more.
func (in *inquiry) keep(connected []Target) {
	there := make(map[string]bool, len(connected))
	for _, t := range connected {
		there[t.Agent] = true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for agent := range in.waiting {
		if !there[agent] {
			in.result.Silent = append(in.result.Silent, agent)
			in.leave(agent)
		}
	}
}

// end returns the result. Nothing is taken afterwards.
func (in *inquiry) end() Result {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	r := in.result
	r.Silent = slices.AppendSeq(r.Silent, maps.Keys(in.waiting))
	slices.Sort(r.Silent)
	slices.Sort(r.Answered)
	slices.Sort(r.Older)
	slices.SortFunc(r.Failed, func(a, b Failure) int { return cmp.Compare(a.Agent, b.Agent) })
	return r
}

// Bounds of what an agent says of an error, in bytes.
const (
	maxErrorText = 1024
	maxKindText  = 32
)

// readError bounds what a stranger wrote, and has it be text without control characters.
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
