package rpc

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what is said of the fleet at once.
const (
	// maxWatched scripts are watched together; of more than a page of them the
	// reasons of failures are cut.
	maxWatched    = 10_000
	maxReason     = 1024
	watchedReason = 200 // bytes
	// statusBytes is about how much memory the status of a script takes: that which a watch has
	// sent last, and one on its way.
	statusBytes = 1 << 10
	// agentsBytes is about how large a page of agents is.
	agentsBytes = 2 << 20
)

func (s *registryService) Status(ctx context.Context, m *registryv1.StatusRequest) (*registryv1.StatusResponse, error) {
	filter, err := toFilter(access.FromContext(ctx), m.GetTenant(), m.GetName())
	if err != nil {
		return nil, err
	}
	if filter.Limit, err = pageSize(m.GetPageSize()); err != nil {
		return nil, err
	}
	filter.After = m.GetPageToken()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	status, err := s.fleet.StatusFor(ctx, filter)
	if err != nil {
		return nil, err
	}
	if status.Freeze, err = s.registry.Frozen(ctx); err != nil { // the fleet may hear of it later
		return nil, err
	}
	if filter.Script != "" && len(status.Scripts) == 0 {
		return nil, script.Errorf(script.NotFound, "name", "there is no script %s/%s", filter.Tenant, filter.Script)
	}
	resp := &registryv1.StatusResponse{Status: fromStatus(access.FromContext(ctx), &status, maxReason, filter.Script != "")}
	if status.More {
		resp.NextPageToken = status.Scripts[len(status.Scripts)-1].Release.Name.String()
	}
	return resp, nil
}

func (s *registryService) WatchStatus(m *registryv1.WatchStatusRequest, stream grpc.ServerStreamingServer[registryv1.WatchStatusResponse]) error {
	filter, err := toFilter(access.FromContext(stream.Context()), m.GetTenant(), m.GetName())
	if err != nil {
		return err
	}
	filter.Limit = maxWatched
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	var sent sentStatuses
	held := 0
	for status := range s.fleet.Watch(ctx, filter) {
		if more := len(status.Scripts) - held; more > 0 {
			if !grpcguard.Hold(stream.Context(), int64(more)*statusBytes) {
				return script.Errorf(script.Overloaded, "tenant", "the registry holds as much for watches as it may: watch fewer scripts, or end other watches")
			}
			held += more
		}
		if status.More {
			return script.Errorf(script.Limit, "tenant", "there are more than %d scripts, too many to watch together: watch those of one tenant", maxWatched)
		}
		reason := maxReason
		if len(status.Scripts) > registry.MaxPageSize {
			reason = watchedReason
		}
		resp := &registryv1.WatchStatusResponse{}
		if m.GetChanges() {
			resp.Changes = sent.scripts != nil
			status.Scripts, resp.Gone = sent.changes(status.Scripts)
		}
		resp.Status = fromStatus(access.FromContext(stream.Context()), &status, reason, filter.Script != "")
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	return errStopping()
}

// untilDraining returns a context that ends when the server is drained, too. The caller
// cancels it.
func (s *registryService) untilDraining(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// errStopping is how a watch ends when the server is drained.
func errStopping() error {
	return script.Errorf(script.Unavailable, "", "this registry is stopping: watch another one")
}

// ListAgents is for those that may read all tenants: nodes, their labels and their
// keys are the platform's. What concerns a tenant's own scripts, its Status says.
func (s *registryService) ListAgents(ctx context.Context, m *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	if err := access.FromContext(ctx).CheckAll(access.Read, script.Selector{}); err != nil {
		return nil, err
	}
	size, err := pageSize(m.GetPageSize())
	if err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	list, err := s.fleet.AgentsFor(ctx, fleet.AgentFilter{
		After: m.GetPageToken(), Limit: size, Troubled: m.GetTroubled(), Caller: access.FromContext(ctx).Subject,
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListAgentsResponse{Fleet: list.Fleet, HeadRevision: int64(list.Head)}
	var cut bool
	if resp.Agents, cut = fromAgents(list.Agents); cut || list.More {
		resp.NextPageToken = resp.Agents[len(resp.Agents)-1].GetAgent()
	}
	return resp, nil
}

// pageSize returns how many items a page holds.
func pageSize(asked int32) (int, error) {
	switch {
	case asked < 0:
		return 0, script.Errorf(script.Invalid, "page_size", "%d is negative", asked)
	case asked == 0:
		return registry.DefaultPageSize, nil
	}
	return min(int(asked), registry.MaxPageSize), nil
}

// catchUp waits until this replica knows what was committed before the request:
// who has just published must not see the status of the release before.
func (s *registryService) catchUp(ctx context.Context) error {
	head, err := s.registry.Head(ctx)
	if err != nil {
		return err
	}
	return s.fleet.Reached(ctx, head)
}

// toFilter returns the filter for a request, and an error if the caller must not read that.
// Without a tenant the filter selects the scripts of all tenants that the caller may read.
func toFilter(who access.Identity, tenant, name string) (fleet.Filter, error) {
	if name != "" {
		if err := (script.Name{Tenant: tenant, Script: name}).Validate(); err != nil {
			return fleet.Filter{}, err
		}
		return fleet.Filter{Tenant: tenant, Script: name, Caller: who.Subject}, who.Check(access.Read, tenant)
	}
	if tenant != "" {
		if err := script.ValidateLabel("tenant", tenant); err != nil {
			return fleet.Filter{}, err
		}
		return fleet.Filter{Tenant: tenant, Caller: who.Subject}, who.Check(access.Read, tenant)
	}
	return fleet.Filter{Caller: who.Subject, Readable: func(tenant string) bool { return who.Allows(access.Read, tenant) }}, nil
}

// fromStatus returns the status with so many bytes of each reason. one: it is of one script, of which
// it has the whole plan.
func fromStatus(who access.Identity, s *fleet.Status, reason int, one bool) *registryv1.FleetStatus {
	m := &registryv1.FleetStatus{
		Fleet:        s.Fleet,
		HeadRevision: int64(s.Head),
		Connected:    int32(s.Connected),
		Unknown:      int32(s.Unknown),
		Scripts:      make([]*registryv1.ScriptStatus, 0, len(s.Scripts)),
		Unreadable:   fromUnreadable(s.Unreadable),
		Freeze:       fromFreeze(who, s.Freeze),
	}
	for i := range s.Scripts {
		m.Scripts = append(m.Scripts, fromScriptStatus(&s.Scripts[i], reason, one))
	}
	return m
}

// summary leaves out what may be large and does not tell how far a release has
// come: a status is of all scripts, and goes out up to fifty times a second. Of the selectors it
// has that of the candidate's step, or of its first one, unless the status is of one script.
func summary(r script.Release, one bool) script.Release {
	r.Settings.Config, r.Settings.Tests, r.Settings.OnError, r.Settings.Decisions, r.Settings.Trigger.Match = nil, nil, script.OnError{}, nil, script.Match{}
	step := 0
	if r.Candidate != nil {
		c := *r.Candidate
		c.Spec.Config, c.Spec.Tests, c.Spec.OnError, c.Spec.Decisions, c.Spec.Trigger.Match, c.Selections, c.Keys = nil, nil, script.OnError{}, nil, script.Match{}, nil, nil
		r.Candidate, step = &c, max(1, c.Step)
	}
	if !one {
		r.Settings.Rollout.Steps = withSelector(r.Settings.Rollout.Steps, step)
		if r.Candidate != nil && r.Candidate.Set != nil {
			set := *r.Candidate.Set
			set.Plan.Steps = withSelector(set.Plan.Steps, step)
			r.Candidate.Set = &set
		}
	}
	r.Retained = slices.DeleteFunc(slices.Clone(r.Retained), func(v script.Version) bool {
		return v.Number != r.Active.Number && (r.Candidate == nil || v.Number != r.Candidate.Version.Number)
	})
	for i := range r.Retained {
		r.Retained[i].Signature = ""
	}
	return r
}

// withSelector returns the steps, of which that with the number, from 1, alone has its selector.
func withSelector(steps []script.Step, number int) []script.Step {
	steps = slices.Clone(steps)
	for i := range steps {
		if i+1 != number {
			steps[i].Selector = ""
		}
	}
	return steps
}

// blankTests are as many tests as a script can have, of which nothing is said: that there
// are tests, and how many, says where a candidate is.
var blankTests = slices.Repeat([]*scriptv1.Test{{}}, script.MaxTests)

func blanks(s script.Spec) []*scriptv1.Test { return blankTests[:min(len(s.Tests), len(blankTests))] }

func fromScriptStatus(p *fleet.ScriptStatus, reason int, one bool) *registryv1.ScriptStatus {
	m := &registryv1.ScriptStatus{
		Release:      wire.WithoutSources(wire.FromRelease(summary(p.Release, one))),
		Desired:      int32(p.Desired),
		Active:       int32(p.Active),
		Failed:       int32(p.Failed),
		Unknown:      int32(p.Unknown),
		Starting:     int32(p.Starting),
		Lagging:      int32(p.Lagging),
		Converged:    p.Converged,
		SlowestAgent: p.SlowestAgent,
	}
	m.Release.Settings.Tests = blanks(p.Release.Settings.Spec)
	if c, its := p.Release.Candidate, m.Release.Candidate; c != nil {
		if its.Settings == nil && len(c.Spec.Tests) != len(p.Release.Settings.Tests) {
			its.Settings = wire.FromSettings(script.Settings{Spec: script.Spec{Limits: c.Spec.Limits, Trigger: c.Spec.Trigger}})
		}
		if its.Settings != nil {
			its.Settings.Tests = blanks(c.Spec)
		}
	}
	if p.Rollout != nil {
		m.Rollout = wire.FromRollout(*p.Rollout)
		if p.Converged {
			m.Took = durationpb.New(p.Rollout.Slowest)
		}
	}
	if t := p.Trials; t != nil {
		why := t.Why
		if !one {
			why = cutText(why, reason)
		}
		m.Trials = &registryv1.Trials{
			Passed: int32(t.Passed), Failed: int32(t.Failed), Running: int32(t.Running),
			Calls: t.Calls, FailedCalls: t.FailedCalls,
			Waiting: int32(t.Waiting), WaitingFor: t.WaitingFor, WaitingWhy: t.WaitingWhy, Why: why, Evidence: t.Evidence,
			Shadow: wire.FromShadowCalls(t.Shadow),
		}
	}
	if p.Unreadable != nil {
		m.Unreadable = fromUnreadable([]registry.Unreadable{*p.Unreadable})[0]
	}
	for _, failure := range p.Failures {
		m.Failures = append(m.Failures, &registryv1.AgentFailure{Agent: failure.Agent, Error: wire.FromError(cut(failure.Err, reason))})
	}
	return m
}

// fromAgents returns the first of the agents, as many as fit into a page, and whether it has cut others off.
func fromAgents(agents []fleet.Agent) (page []*registryv1.AgentStatus, cut bool) {
	bytes := 0
	for i := range agents {
		agent := fromAgent(&agents[i])
		if bytes += proto.Size(agent); bytes > agentsBytes && i > 0 {
			return page, true
		}
		page = append(page, agent)
	}
	return page, false
}

func fromAgent(a *fleet.Agent) *registryv1.AgentStatus {
	m := &registryv1.AgentStatus{
		Agent:             a.Name,
		ForeignFleet:      a.Fleet,
		Labels:            a.Labels,
		Software:          a.Software,
		ActivatedRevision: int64(a.Activated),
		Unknown:           a.Unknown,
		UnheardFor:        durationpb.New(a.UnheardFor),
		Behind:            int32(a.Behind),
		Lag:               durationpb.New(a.Lag),
		Failed:            int32(a.Failed),
		Tenants:           a.Tenants.Globs(),
		DiskKeys:          a.DiskKeys,
		Drifts:            a.Drifts,
		Held:              a.Held,
		Quarantined:       int32(a.Quarantined),
		LaggingTenants:    int32(a.Lagging),
	}
	if d := a.Disk; d != nil {
		m.Disk = &eventv1.Disk{FreeBytes: d.Free, SizeBytes: d.Size, Fault: d.Fault, CorruptFiles: d.Corrupt, UntrustedFiles: d.Untrusted}
	}
	for _, failure := range a.Failures {
		m.Failures = append(m.Failures, &registryv1.ScriptFailure{
			Tenant: failure.Name.Tenant, Name: failure.Name.Script, Revision: int64(failure.Revision),
			Error: wire.FromError(cut(failure.Err, maxReason)),
		})
	}
	return m
}

// cut bounds what an error says.
func cut(err *script.Error, bytes int) *script.Error {
	if len(err.Message) <= bytes {
		return err
	}
	short := *err
	short.Message = cutText(err.Message, bytes)
	return &short
}

func cutText(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "") + "…"
}
