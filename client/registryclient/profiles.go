package registryclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/engine"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ScriptProfileRequest says what to profile.
type ScriptProfileRequest struct {
	Of      script.Name
	Version uint64   // all versions that are called if 0
	Agents  []string // names, or patterns such as "edge-*"; all agents if empty
	// Duration of the profile, at most a minute; 10 s if 0.
	Duration time.Duration
	// Started is called when the registry asks the agents. It may be nil.
	Started func()
	// End ends the profile early when it is closed: what it has found by then is returned. It may be
	// nil.
	End <-chan struct{}
}

// ScriptProfile is where the calls of a script spent their instructions.
type ScriptProfile struct {
	// Versions that were called, by their numbers. They add up what all agents have found.
	Versions []ProfiledVersion
	// Agents that have answered, by their names.
	Agents []ProfiledAgent
	Result QueryResult
}

// ProfiledVersion is where the calls of one version spent their instructions.
type ProfiledVersion struct {
	Version uint64
	Calls   uint64
	// Missed instructions have no stack: too many samples came at a time.
	Missed uint64
	// Stacks, those with most instructions first.
	Stacks []ProfileStack
}

// Instructions returns what all samples of the version stand for.
func (v *ProfiledVersion) Instructions() uint64 {
	all := v.Missed
	for _, s := range v.Stacks {
		all += s.Instructions
	}
	return all
}

// ProfileStack is where calls were, the innermost function first. Names of functions are in the
// version's source.
type ProfileStack struct {
	Frames       []engine.Frame
	Instructions uint64
}

// ProfiledAgent is an agent that profiled.
type ProfiledAgent struct {
	Agent string
	Took  time.Duration
	Calls uint64
	// OtherCalls are of versions that are not in the profile: there were too many.
	OtherCalls uint64
}

// profileTakes is how long a registry may take for a profile, besides what it takes itself.
const profileTakes = time.Minute + agentsTake

// ProfileScript has agents profile a script, and returns what they have found when the time is up, or
// End ends it.
func (c *Client) ProfileScript(ctx context.Context, req ScriptProfileRequest) (ScriptProfile, error) {
	ctx, cancel := c.bounded(ctx, profileTakes)
	defer cancel()
	m := &registryv1.ProfileScriptRequest{Tenant: req.Of.Tenant, Name: req.Of.Script, Version: req.Version, Agents: req.Agents, Duration: orAbsent(req.Duration)}
	stream, err := c.registry.ProfileScript(ctx, m)
	if err != nil {
		return ScriptProfile{}, c.fault(ctx, err)
	}
	sum := profileSum{versions: map[uint64]*versionSum{}, agents: map[string]*ProfiledAgent{}}
	for {
		resp, err := receive(ctx, c, stream)
		if err != nil {
			return ScriptProfile{}, err
		}
		if id := resp.GetProfile(); id != "" {
			stop := c.endWhen(ctx, req.End, &registryv1.EndProfileRequest{Tenant: req.Of.Tenant, Name: req.Of.Script, Agents: req.Agents, Profile: id})
			defer stop()
			if req.Started != nil {
				req.Started()
			}
		}
		if err := sum.add(resp); err != nil {
			return ScriptProfile{}, malformed(err)
		}
		if resp.GetResult() != nil {
			return sum.profile(toQueryResult(resp.GetResult())), nil
		}
	}
}

// orAbsent returns the duration, or nil for the registry's default.
func orAbsent(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// receive returns the next response of a stream that the caller reads to its end.
func receive[T any](ctx context.Context, c *Client, stream grpc.ServerStreamingClient[T]) (*T, error) {
	resp, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, script.Errorf(script.Unavailable, "", "the registry at %s ended the stream: it may be restarting", c.target)
	}
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	return resp, nil
}

// endWhen ends a profile early when end is closed, unless stop is called before.
func (c *Client) endWhen(ctx context.Context, end <-chan struct{}, req *registryv1.EndProfileRequest) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-end:
			_, _ = call(ctx, c, c.registry.EndProfile, req) // without, it ends when its time is up
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

// profileSum adds up what agents have found.
type profileSum struct {
	versions map[uint64]*versionSum
	agents   map[string]*ProfiledAgent
}

type versionSum struct {
	calls, missed uint64
	stacks        map[string]*ProfileStack // by their frames
}

func (p *profileSum) add(resp *registryv1.ProfileScriptResponse) error {
	if resp.GetAgent() == "" {
		return nil
	}
	agent := p.agents[resp.GetAgent()]
	if agent == nil {
		agent = &ProfiledAgent{Agent: resp.GetAgent()}
		p.agents[resp.GetAgent()] = agent
	}
	if s := resp.GetSummary(); s != nil {
		agent.Took, agent.OtherCalls = s.GetTook().AsDuration(), s.GetOtherCalls()
	}
	m := resp.GetPart()
	if m == nil {
		return nil
	}
	agent.Calls += m.GetCalls()
	v := p.versions[m.GetVersion()]
	if v == nil {
		v = &versionSum{stacks: map[string]*ProfileStack{}}
		p.versions[m.GetVersion()] = v
	}
	v.calls += m.GetCalls()
	v.missed += m.GetMissedInstructions()
	for _, s := range m.GetStacks() {
		frames := make([]engine.Frame, len(s.GetFrames()))
		var key bytes.Buffer
		for i, n := range s.GetFrames() {
			if uint64(n) >= uint64(len(m.GetFrames())) {
				return fmt.Errorf("a stack refers to frame %d of %d", n, len(m.GetFrames()))
			}
			f := m.GetFrames()[n]
			frames[i] = engine.Frame{Builtin: f.GetBuiltin(), Function: f.GetFunction(), Line: f.GetLine()}
			fmt.Fprintf(&key, "%q %d %d ", f.GetBuiltin(), f.GetFunction(), f.GetLine())
		}
		known := v.stacks[key.String()]
		if known == nil {
			known = &ProfileStack{Frames: frames}
			v.stacks[key.String()] = known
		}
		known.Instructions += s.GetInstructions()
	}
	return nil
}

func (p *profileSum) profile(result QueryResult) ScriptProfile {
	out := ScriptProfile{Result: result}
	for number, v := range p.versions {
		version := ProfiledVersion{Version: number, Calls: v.calls, Missed: v.missed}
		for _, s := range v.stacks {
			version.Stacks = append(version.Stacks, *s)
		}
		slices.SortFunc(version.Stacks, func(a, b ProfileStack) int {
			return cmp.Or(cmp.Compare(b.Instructions, a.Instructions), slices.CompareFunc(a.Frames, b.Frames, compareFrames))
		})
		out.Versions = append(out.Versions, version)
	}
	for _, a := range p.agents {
		out.Agents = append(out.Agents, *a)
	}
	slices.SortFunc(out.Versions, func(a, b ProfiledVersion) int { return cmp.Compare(a.Version, b.Version) })
	slices.SortFunc(out.Agents, func(a, b ProfiledAgent) int { return cmp.Compare(a.Agent, b.Agent) })
	return out
}

func compareFrames(a, b engine.Frame) int {
	return cmp.Or(cmp.Compare(a.Builtin, b.Builtin), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
}

// AgentProfileRequest says which profile to take of the process of an agent.
type AgentProfileRequest struct {
	Agent string
	// Type is "cpu", "heap", "allocs", "goroutine", "mutex" or "block". Heap, allocs and goroutine take
	// no time.
	Type string
	// Duration of the profile, at most a minute; 10 s if 0.
	Duration time.Duration
	// Started is called when the registry asks the agents. It may be nil.
	Started func()
	// End ends the profile early when it is closed: what it has found by then is returned. It may be
	// nil.
	End <-chan struct{}
}

// maxAgentProfile bounds a profile of an agent's process, in bytes. Agents bound it, too.
const maxAgentProfile = 16 << 20

// ProfileAgent has an agent profile its own process, and returns the profile in the format of pprof. It
// needs the role admin for all tenants, and stands in the audit trail.
func (c *Client) ProfileAgent(ctx context.Context, req AgentProfileRequest) ([]byte, error) {
	ctx, cancel := c.bounded(ctx, profileTakes)
	defer cancel()
	stream, err := c.registry.ProfileAgent(ctx, &registryv1.ProfileAgentRequest{Agent: req.Agent, Type: req.Type, Duration: orAbsent(req.Duration)})
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	var data []byte
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) && len(data) > 0 {
			return data, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, script.Errorf(script.Unavailable, "", "the registry at %s ended the stream: it may be restarting", c.target)
		}
		if err != nil {
			return nil, c.fault(ctx, err)
		}
		if id := resp.GetProfile(); id != "" {
			stop := c.endWhen(ctx, req.End, &registryv1.EndProfileRequest{Agents: []string{req.Agent}, Profile: id})
			defer stop()
			if req.Started != nil {
				req.Started()
			}
		}
		if data = append(data, resp.GetData()...); len(data) > maxAgentProfile {
			return nil, malformed(fmt.Errorf("the profile has more than %d bytes", maxAgentProfile))
		}
	}
}
