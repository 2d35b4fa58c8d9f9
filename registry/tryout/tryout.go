// Package tryout has one agent run a script that is not published, and collects what came of it. The registry runs nothing
// itself. It bounds all that it takes from the agent.
package tryout

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what is tried.
const (
	MaxCalls     = 50
	maxCallBytes = 1 << 20 // of the arguments of all calls

	maxTimeout     = time.Minute
	defaultTimeout = 20 * time.Second
	// patience is how long an agent may take besides.
	patience = 2 * time.Second

	agentBytes = 3 << 20 // agents bound their answers, too
	// maxAgents are asked one after the other, if the caller names none, until one can run the script.
	maxAgents = 5
)

// Asker asks agents.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// Request says what to run, and where.
type Request struct {
	Caller  string // who asks
	Script  *eventv1.TryScript
	Agent   string // any if empty
	Timeout time.Duration
	// Answerers are the connected agents that follow the tenant.
	Answerers []fleet.Answerer
	// Note is called before an agent is asked.
	Note func(agent string) error
}

// Found is what came of it.
type Found struct {
	Agent   string
	Run     *eventv1.TryRun
	Results []*eventv1.TryResult // of calls, and then of tests
}

// Timeout returns how long to wait for all calls.
func Timeout(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return defaultTimeout, nil
	}
	d := m.AsDuration()
	if m.CheckValid() != nil || d <= 0 || d > maxTimeout {
		return 0, script.Errorf(script.Invalid, "timeout", "is %v, want more than 0 and at most %v", d, maxTimeout)
	}
	return d, nil
}

// CheckCalls returns an Invalid error unless these are calls that an agent can make.
func CheckCalls(calls []*eventv1.TryCall) error {
	if len(calls) > MaxCalls {
		return script.Errorf(script.Invalid, "calls", "are %d, at most %d are allowed", len(calls), MaxCalls)
	}
	size := 0
	for i, c := range calls {
		for j, arg := range c.GetArgs() {
			if !json.Valid(arg) {
				return script.Errorf(script.Invalid, fmt.Sprintf("calls[%d].args[%d]", i, j), "is not JSON")
			}
			size += len(arg)
		}
	}
	if size > maxCallBytes {
		return script.Errorf(script.Invalid, "calls", "have %d bytes of arguments together, at most %d (1 MiB) are allowed", size, maxCallBytes)
	}
	return nil
}

// Run has an agent run the script. Without a name, it asks others if the first one cannot.
func Run(ctx context.Context, asker Asker, r Request) (*Found, error) {
	content, err := proto.Marshal(r.Script)
	if err != nil {
		return nil, script.Errorf(script.Internal, "", "encode what an agent is to run: %w", err)
	}
	if len(content) > query.MaxContent {
		return nil, script.Errorf(script.Limit, "source", "the source, what it requires, its tests and calls have %d bytes together, at most %d are sent to an agent", len(content), query.MaxContent)
	}
	agents, err := r.agents()
	if err != nil {
		return nil, err
	}
	var refused []string
	for _, agent := range agents {
		found, passes, err := r.ask(ctx, asker, agent, content)
		if err == nil || !passes || len(agents) == 1 || ctx.Err() != nil {
			return found, err
		}
		refused = append(refused, err.Error())
	}
	return nil, script.Errorf(script.Unavailable, "agent", "no agent could run the script: %s", strings.Join(refused, "; "))
}

// agents returns those to ask, in order.
func (r *Request) agents() (some []fleet.Answerer, err error) {
	for _, a := range r.Answerers {
		if a.Queries && (r.Agent == "" || a.Agent == r.Agent) {
			some = append(some, a)
		}
	}
	tenant := r.Script.GetTenant()
	switch {
	case len(some) > 0:
		rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		return some[:min(len(some), maxAgents)], nil
	case r.Agent != "" && slices.ContainsFunc(r.Answerers, func(a fleet.Answerer) bool { return a.Agent == r.Agent }):
		return nil, errOlder(r.Agent)
	case r.Agent == "" && len(r.Answerers) > 0:
		return nil, errOlder(r.Answerers[0].Agent)
	case r.Agent != "":
		return nil, script.Errorf(script.NotFound, "agent", "no agent with the name %.80q that follows tenant %s is connected: scriptctl agents lists them", r.Agent, tenant)
	}
	return nil, script.Errorf(script.Unavailable, "agent", "no agent that follows tenant %s is connected to this registry: start one, or run the script on your machine (scriptctl run)", tenant)
}

func errOlder(agent string) error {
	return script.Errorf(script.Unavailable, "agent", "the software of agent %s is too old to run what is not published: upgrade agentd there, or name another agent", agent)
}

// ask has the agent run the script. With an error, passes reports whether another one may run it: this one has answered that it
// does not.
func (r *Request) ask(ctx context.Context, asker Asker, agent fleet.Answerer, content []byte) (_ *Found, passes bool, err error) {
	if err := r.Note(agent.Agent); err != nil {
		return nil, false, err
	}
	digest := sha256.Sum256(content)
	c := &collector{most: len(r.Script.GetCalls())}
	if r.Script.GetTests() {
		c.most += len(r.Script.GetSettings().GetTests())
	}
	result, err := asker.Ask(ctx, query.Question{
		Caller: r.Caller, Agents: []string{agent.Agent}, Tenant: r.Script.GetTenant(), Timeout: r.Timeout + patience, AgentBytes: agentBytes, Bytes: agentBytes,
		Incarnation: agent.Incarnation,
		Query: &eventv1.Query{Kind: &eventv1.Query_Try{Try: &eventv1.TryQuery{
			Incarnation: agent.Incarnation, Digest: digest[:], Size: int64(len(content)), Timeout: durationpb.New(r.Timeout),
		}}},
		Content: content,
	}, c.take)
	switch {
	case err != nil:
		return nil, false, err
	case len(result.Failed) > 0:
		e := *result.Failed[0].Err
		e.Message = "agent " + agent.Agent + ": " + e.Message
		return nil, true, &e
	case len(result.Older) > 0:
		return nil, true, errOlder(agent.Agent)
	case len(result.Gone) > 0:
		return nil, false, script.Errorf(script.Unavailable, "agent", "agent %s has left, or started again, before it answered: try again, or on another agent", agent.Agent)
	case len(result.Answered) == 0:
		return nil, false, script.Errorf(script.Unavailable, "agent", "agent %s did not answer in time: is it busy, and do the users of NATS have the subject PREFIX.content.> (deploy/nats/nats-server.conf)?", agent.Agent)
	}
	found := c.found()
	found.Agent = agent.Agent
	if found.Run == nil {
		return nil, false, script.Errorf(script.Unavailable, "agent", "agent %s does not say how it ran the script", agent.Agent)
	}
	return found, false, nil
}

// collector keeps what the agent sends.
type collector struct {
	most int // results

	mu  sync.Mutex
	all Found
}

func (c *collector) take(p query.Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := p.Answer.GetTry()
	if m.GetRun() != nil && c.all.Run == nil {
		c.all.Run = m.GetRun()
		c.all.Run.CompileError = bound(c.all.Run.GetCompileError())
	}
	for _, r := range m.GetResults() {
		if len(c.all.Results) == c.most {
			return
		}
		c.all.Results = append(c.all.Results, believable(r))
	}
}

// Bounds of a result, beside the bytes that an agent may send: many empty parts are few bytes.
const (
	maxLogs        = 100
	maxDifferences = 20
)

// believable returns the result without what cannot be one.
func believable(r *eventv1.TryResult) *eventv1.TryResult {
	if more := len(r.GetLogs()) - maxLogs; more > 0 {
		r.Logs, r.DroppedLogs = slices.Clone(r.GetLogs()[:maxLogs]), r.GetDroppedLogs()+uint64(more)
	}
	if slices.ContainsFunc(r.GetResults(), func(text []byte) bool { return !json.Valid(text) }) {
		r.Results, r.Truncated = nil, true
	}
	r.Error = bound(r.GetError())
	if r.GetTest() != nil {
		r.Test.Why = bound(r.GetTest().GetWhy())
		r.Test.Differences = slices.DeleteFunc(r.GetTest().GetDifferences(), func(d *eventv1.TryDifference) bool {
			return d.GetWant() != "" && !json.Valid([]byte(d.GetWant())) || d.GetGot() != "" && !json.Valid([]byte(d.GetGot()))
		})
		if d := r.GetTest().GetDifferences(); len(d) > maxDifferences {
			r.Test.Differences, r.Test.MoreDifferences = slices.Clone(d[:maxDifferences]), true
		}
	}
	return r
}

// bound returns the error with a stack that keeps its bounds, whoever sent it.
func bound(m *scriptv1.Error) *scriptv1.Error {
	if m == nil {
		return nil
	}
	return wire.FromCallError(wire.ToError(m))
}

func (c *collector) found() *Found {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.all
	return &found
}
