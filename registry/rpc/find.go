package rpc

import (
	"context"
	"strings"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what people look for.
const (
	defaultWindow  = 50
	maxWindow      = 200
	maxSearchBytes = 200
	maxSearchWords = 8
)

// FindScripts is for lists that people scroll through. A caller without the right to read anything finds nothing.
func (s *registryService) FindScripts(ctx context.Context, m *registryv1.FindScriptsRequest) (*registryv1.FindScriptsResponse, error) {
	who := access.FromContext(ctx)
	filter, err := toFilter(who, m.GetTenant(), "")
	if err != nil {
		return nil, err
	}
	search := fleet.Search{
		Tenant: filter.Tenant, Readable: filter.Readable, Caller: filter.Caller,
		Event: m.GetTrigger(), Engine: m.GetEngine(), Descending: m.GetDescending(),
	}
	if search.State, err = toState(m.GetState()); err != nil {
		return nil, err
	}
	if search.Order, err = toOrder(m.GetOrder()); err != nil {
		return nil, err
	}
	if search.Words, err = words(m.GetSearch()); err != nil {
		return nil, err
	}
	if search.Offset, search.Limit, err = window(m.GetOffset(), m.GetLimit()); err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	found, err := s.fleet.Find(ctx, search)
	if err != nil {
		return nil, err
	}
	if found.Freeze, err = s.registry.Frozen(ctx); err != nil { // the fleet may hear of it later
		return nil, err
	}
	return &registryv1.FindScriptsResponse{Status: fromStatus(who, &found.Status, maxReason, false), Total: int32(found.Total)}, nil
}

// words returns what to look for, in lower case.
func words(search string) ([]string, error) {
	if n := len(search); n > maxSearchBytes {
		return nil, script.Errorf(script.Invalid, "search", "has %d bytes, at most %d are allowed: look for less", n, maxSearchBytes)
	}
	words := strings.Fields(strings.ToLower(search))
	if n := len(words); n > maxSearchWords {
		return nil, script.Errorf(script.Invalid, "search", "has %d words, at most %d are allowed: look for less", n, maxSearchWords)
	}
	return words, nil
}

// window returns which part of what is found to return.
func window(offset, limit int32) (from, most int, err error) {
	switch {
	case offset < 0:
		return 0, 0, script.Errorf(script.Invalid, "offset", "%d is negative", offset)
	case limit < 0:
		return 0, 0, script.Errorf(script.Invalid, "limit", "%d is negative", limit)
	case limit == 0:
		limit = defaultWindow
	}
	return int(offset), min(int(limit), maxWindow), nil
}

// known returns the registry's value for one of the protocol.
func known[E comparable, V any](field string, e E, values map[E]V) (V, error) {
	v, ok := values[e]
	if !ok {
		return v, script.Errorf(script.Invalid, field, "%v is no %s that this registry knows", e, field)
	}
	return v, nil
}

func toState(state registryv1.ScriptState) (fleet.State, error) {
	return known("state", state, map[registryv1.ScriptState]fleet.State{
		registryv1.ScriptState_SCRIPT_STATE_UNSPECIFIED:      fleet.AnyState,
		registryv1.ScriptState_SCRIPT_STATE_CANDIDATE:        fleet.WithCandidate,
		registryv1.ScriptState_SCRIPT_STATE_CANDIDATE_FAILED: fleet.CandidateFailed,
		registryv1.ScriptState_SCRIPT_STATE_HELD:             fleet.Held,
		registryv1.ScriptState_SCRIPT_STATE_DISABLED:         fleet.Disabled,
		registryv1.ScriptState_SCRIPT_STATE_FAILING:          fleet.Failing,
		registryv1.ScriptState_SCRIPT_STATE_NOT_CONVERGED:    fleet.NotConverged,
		registryv1.ScriptState_SCRIPT_STATE_UNREADABLE:       fleet.Unreadable,
	})
}

func toOrder(order registryv1.ScriptOrder) (fleet.Order, error) {
	return known("order", order, map[registryv1.ScriptOrder]fleet.Order{
		registryv1.ScriptOrder_SCRIPT_ORDER_UNSPECIFIED: fleet.ByName,
		registryv1.ScriptOrder_SCRIPT_ORDER_CHANGED:     fleet.ByChange,
		registryv1.ScriptOrder_SCRIPT_ORDER_FAILING:     fleet.ByFailing,
	})
}

// FindAgents needs the same rights as ListAgents.
func (s *registryService) FindAgents(ctx context.Context, m *registryv1.FindAgentsRequest) (*registryv1.FindAgentsResponse, error) {
	who := access.FromContext(ctx)
	if err := who.CheckAll(access.Read, script.Selector{}); err != nil {
		return nil, err
	}
	search := fleet.AgentSearch{Name: m.GetAgent(), Descending: m.GetDescending(), Caller: who.Subject}
	var err error
	if search.State, err = toAgentState(m.GetState()); err != nil {
		return nil, err
	}
	if search.Order, err = toAgentOrder(m.GetOrder()); err != nil {
		return nil, err
	}
	if search.Words, err = words(m.GetSearch()); err != nil {
		return nil, err
	}
	if search.Offset, search.Limit, err = window(m.GetOffset(), m.GetLimit()); err != nil {
		return nil, err
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	found, err := s.fleet.FindAgents(ctx, search)
	if err != nil {
		return nil, err
	}
	resp := &registryv1.FindAgentsResponse{
		Total: int32(found.Total), Fleet: found.Fleet, HeadRevision: int64(found.Head), Connected: int32(found.Connected), Unknown: int32(found.Unknown),
	}
	resp.Agents, _ = fromAgents(found.Agents)
	return resp, nil
}

func toAgentState(state registryv1.AgentState) (fleet.AgentState, error) {
	return known("state", state, map[registryv1.AgentState]fleet.AgentState{
		registryv1.AgentState_AGENT_STATE_UNSPECIFIED: fleet.AnyAgent,
		registryv1.AgentState_AGENT_STATE_TROUBLED:    fleet.TroubledAgent,
		registryv1.AgentState_AGENT_STATE_UNKNOWN:     fleet.UnknownAgent,
		registryv1.AgentState_AGENT_STATE_BEHIND:      fleet.BehindAgent,
		registryv1.AgentState_AGENT_STATE_FAILING:     fleet.FailingAgent,
		registryv1.AgentState_AGENT_STATE_HELD:        fleet.HeldAgent,
		registryv1.AgentState_AGENT_STATE_FOREIGN:     fleet.ForeignAgent,
		registryv1.AgentState_AGENT_STATE_FLEET:       fleet.FleetAgent,
		registryv1.AgentState_AGENT_STATE_QUARANTINED: fleet.QuarantinedAgent,
		registryv1.AgentState_AGENT_STATE_DISK:        fleet.DiskAgent,
	})
}

func toAgentOrder(order registryv1.AgentOrder) (fleet.AgentOrder, error) {
	return known("order", order, map[registryv1.AgentOrder]fleet.AgentOrder{
		registryv1.AgentOrder_AGENT_ORDER_UNSPECIFIED: fleet.AgentsByName,
		registryv1.AgentOrder_AGENT_ORDER_LAG:         fleet.AgentsByLag,
		registryv1.AgentOrder_AGENT_ORDER_SOFTWARE:    fleet.AgentsBySoftware,
		registryv1.AgentOrder_AGENT_ORDER_FAILED:      fleet.AgentsByFailed,
	})
}
