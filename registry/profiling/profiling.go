// Package profiling has agents of the fleet profile scripts, and their own processes, and collects what
// they have found. It bounds all that it takes from them.
package profiling

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of profiles.
const (
	// MaxAgents of one profile of a script.
	MaxAgents = 20

	maxDuration     = time.Minute
	defaultDuration = 10 * time.Second
	// patience is how long an agent may take besides the profile's duration.
	patience    = 10 * time.Second
	endPatience = 5 * time.Second

	scriptBytes  = 1 << 20 // of an agent
	processBytes = 9 << 20 // agents bound a profile, too
	// maxEntries are the frames and stacks of an agent, of which it has fewer: an empty one takes two bytes
	// of a message, and forty times that here.
	maxEntries = 64 << 10
)

// Asker asks agents.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// NewID returns the id of a profile, with which it can be ended.
func NewID() string { return rand.Text() }

// Script says which script to profile, and where.
type Script struct {
	Caller   string // who asks
	ID       string // of NewID
	Of       script.Name
	Version  uint64   // all if 0
	Agents   []string // names or patterns; all if empty
	Duration time.Duration
}

// Found is what agents have found.
type Found struct {
	Agents []AgentProfile // in the order in which they answered
	Result query.Result
}

// AgentProfile is what one agent has found.
type AgentProfile struct {
	Agent   string
	Parts   []*eventv1.ScriptProfile
	Summary *eventv1.ProfileSummary // nil if the answer is not whole

	entries int // frames and stacks that the agent sent
}

// ProfileScript has agents profile a script. If ctx is done it has them end early.
func ProfileScript(ctx context.Context, asker Asker, s Script) (Found, error) {
	c := collector{}
	result, err := asker.Ask(ctx, query.Question{
		Caller: s.Caller, Agents: s.Agents, Tenant: s.Of.Tenant, Timeout: s.Duration + patience,
		AgentBytes: scriptBytes, Bytes: MaxAgents * scriptBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_ScriptProfile{ScriptProfile: &eventv1.ScriptProfileQuery{
			Name: s.Of.Script, Version: s.Version, Duration: durationpb.New(s.Duration), Profile: s.ID,
		}}},
	}, c.take)
	if ctx.Err() != nil {
		abandon(ctx, asker, End{Caller: s.Caller, ID: s.ID, Of: s.Of, Agents: s.Agents})
	}
	if err != nil {
		return Found{}, err
	}
	return Found{Agents: c.found(), Result: result}, nil
}

// Process says which agent is to profile its process.
type Process struct {
	Caller   string // who asks
	ID       string // of NewID
	Agent    string
	Type     string
	Duration time.Duration // of ProcessDuration
}

// ProfileProcess has an agent profile its process, and returns the profile in the format of pprof. If
// ctx is done it has it end early.
func ProfileProcess(ctx context.Context, asker Asker, p Process) ([]byte, error) {
	if strings.ContainsAny(p.Agent, `*?[\`) || p.Agent == "" { // a pattern
		return nil, noAgent(p.Agent)
	}
	var data bytes.Buffer
	result, err := asker.Ask(ctx, query.Question{
		Caller: p.Caller, Agents: []string{p.Agent}, Timeout: p.Duration + patience, AgentBytes: processBytes, Bytes: processBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_ProcessProfile{ProcessProfile: &eventv1.ProcessProfileQuery{
			Type: p.Type, Duration: durationpb.New(p.Duration), Profile: p.ID,
		}}},
	}, func(part query.Part) { data.Write(part.Answer.GetProcessProfile().GetData()) })
	if ctx.Err() != nil {
		abandon(ctx, asker, End{Caller: p.Caller, ID: p.ID, Agents: []string{p.Agent}})
	}
	if err != nil {
		return nil, err
	}
	switch {
	case len(result.Answered) == 1:
		return data.Bytes(), nil
	case len(result.Failed) > 0:
		failed := *result.Failed[0].Err
		failed.Message = "agent " + p.Agent + ": " + failed.Message
		return nil, &failed
	case len(result.Older) > 0:
		return nil, script.Errorf(script.Unavailable, "agent", "the software of agent %s is too old for profiles: upgrade agentd there, or use its --debug-socket", p.Agent)
	case len(result.Silent) > 0:
		return nil, script.Errorf(script.Unavailable, "agent", "agent %s did not answer in time: try again, or use its --debug-socket", p.Agent)
	}
	return nil, noAgent(p.Agent)
}

// noAgent is the error of an agent that is not connected.
func noAgent(name string) error {
	return script.Errorf(script.NotFound, "agent", "no agent with the name %.80q is connected: scriptctl agents lists them", name)
}

// End says which profile to end.
type End struct {
	Caller string // who asks
	ID     string
	Of     script.Name // zero for a profile of a process
	Agents []string    // as they were named
}

// EndProfile has agents end a profile early.
func EndProfile(ctx context.Context, asker Asker, e End) error {
	_, err := asker.Ask(ctx, query.Question{
		Caller: e.Caller, Agents: e.Agents, Tenant: e.Of.Tenant, Timeout: endPatience, AgentBytes: 4 << 10, Bytes: MaxAgents * 4 << 10,
		Query: &eventv1.Query{Kind: &eventv1.Query_EndProfile{EndProfile: &eventv1.EndProfileQuery{Name: e.Of.Script, Profile: e.ID}}},
	}, func(query.Part) {})
	return err
}

// abandon ends a profile that nobody waits for any more. It would end by itself.
func abandon(ctx context.Context, asker Asker, e End) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	_ = EndProfile(ctx, asker, e)
}

// Duration returns how long a profile takes: 10 s if nothing is said.
func Duration(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return defaultDuration, nil
	}
	d := m.AsDuration()
	if m.CheckValid() != nil || d <= 0 || d > maxDuration {
		return 0, script.Errorf(script.Invalid, "duration", "is %v, want more than 0 and at most %v", d, maxDuration)
	}
	return d, nil
}

// Types of profiles that agents take of their processes: those that are of a span of time, and the
// others.
var (
	timedTypes   = []string{"cpu", "mutex", "block"}
	instantTypes = []string{"heap", "allocs", "goroutine"}
)

// ProcessDuration is Duration for a profile of the type: 0 if it takes no time. It refuses a type that
// is none.
func ProcessDuration(kind string, m *durationpb.Duration) (time.Duration, error) {
	switch {
	case slices.Contains(instantTypes, kind):
		return 0, nil
	case slices.Contains(timedTypes, kind):
		return Duration(m)
	}
	return 0, script.Errorf(script.Invalid, "type", "%.80q is no type of profile: want %s", kind, strings.Join(slices.Concat(timedTypes, instantTypes), ", "))
}

// collector keeps what agents send.
type collector struct {
	mu     sync.Mutex
	agents []AgentProfile
}

func (c *collector) take(p query.Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.agents)
	for i := range c.agents {
		if c.agents[i].Agent == p.Agent {
			n = i
		}
	}
	if n == len(c.agents) {
		c.agents = append(c.agents, AgentProfile{Agent: p.Agent})
	}
	to := &c.agents[n]
	switch m := p.Answer.GetKind().(type) {
	case *eventv1.Answer_ScriptProfile:
		to.entries += len(m.ScriptProfile.GetFrames()) + len(m.ScriptProfile.GetStacks())
		if to.entries <= maxEntries {
			to.Parts = append(to.Parts, believable(m.ScriptProfile))
		}
	case *eventv1.Answer_ProfileSummary:
		to.Summary = summaryOf(m.ProfileSummary)
	}
}

func (c *collector) found() []AgentProfile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agents
}
