package rpc

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/proto/grpcguard"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rollout/compare"
	"github.com/scriptorium-dev/scriptorium/script"
)

// zoneLabel is by what agents are grouped if nobody says otherwise.
const zoneLabel = "topology.kubernetes.io/zone"

const (
	// maxNodes are described in one message; of more than fewNodes of them the reasons are cut.
	maxNodes = 1000
	fewNodes = 100
	// nodesBytes is about how much memory a watch of a rollout takes, and nodeBytes what it takes for each agent that
	// it describes.
	nodesBytes = 128 << 10
	nodeBytes  = 1 << 10
	maxLost    = 1000
)

func (s *registryService) WatchRollout(m *registryv1.WatchRolloutRequest, stream grpc.ServerStreamingServer[registryv1.WatchRolloutResponse]) error {
	who := access.FromContext(stream.Context())
	filter, err := toNodesFilter(who, m)
	if err != nil {
		return err
	}
	ctx, cancel := s.untilDraining(stream.Context())
	defer cancel()
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if !grpcguard.Hold(stream.Context(), int64(nodesBytes+filter.Agents*nodeBytes)) {
		return script.Errorf(script.Overloaded, "agents", "the registry holds as much for watches as it may: ask for fewer agents, or end other watches")
	}
	var sent *registryv1.WatchRolloutResponse
	for nodes := range s.fleet.WatchNodes(ctx, filter) {
		if len(nodes.Scripts) == 0 {
			return script.Errorf(script.NotFound, "name", "there is no script %s", filter.Script)
		}
		resp := fromNodes(who, &nodes)
		resp.GroupBy = filter.Label
		if proto.Equal(resp, sent) {
			continue
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
		sent = resp
	}
	return errStopping()
}

// toNodesFilter refuses what the caller may not see: labels are the platform's, as ListAgents has it.
func toNodesFilter(who access.Identity, m *registryv1.WatchRolloutRequest) (fleet.NodesFilter, error) {
	name := script.Name{Tenant: m.GetTenant(), Script: m.GetName()}
	if err := name.Validate(); err != nil {
		return fleet.NodesFilter{}, err
	}
	if err := who.Check(access.Read, name.Tenant); err != nil {
		return fleet.NodesFilter{}, err
	}
	filter := fleet.NodesFilter{Script: name, Label: m.GetGroupBy(), Group: m.Group, Caller: who.Subject}
	switch err := who.CheckAll(access.Read, script.Selector{}); {
	case err != nil && filter.Label != "":
		return fleet.NodesFilter{}, script.Errorf(script.Denied, "group_by", "only callers that can read all tenants see the labels of agents: leave group_by out: %w", err)
	case err != nil || m.GetTogether():
		filter.Label = ""
	case filter.Label == "":
		filter.Label = zoneLabel
	}
	if m.GetAgents() < 0 || m.GetOffset() < 0 {
		return fleet.NodesFilter{}, script.Errorf(script.Invalid, "agents", "%d agents from %d on: neither can be negative", m.GetAgents(), m.GetOffset())
	}
	filter.Agents, filter.Offset = min(int(m.GetAgents()), maxNodes), int(m.GetOffset())
	var err error
	filter.State, err = toNodeState(m.GetState())
	return filter, err
}

func toNodeState(state registryv1.RolloutState) (fleet.NodeState, error) {
	for known := range fleet.NodeStates {
		if fromNodeState(known) == state {
			return known, nil
		}
	}
	return 0, script.Errorf(script.Invalid, "state", "%d is no state that this registry knows", state)
}

func fromNodeState(state fleet.NodeState) registryv1.RolloutState {
	switch state {
	case fleet.NodeActive:
		return registryv1.RolloutState_ROLLOUT_STATE_ACTIVE
	case fleet.NodePassed:
		return registryv1.RolloutState_ROLLOUT_STATE_PASSED
	case fleet.NodeCandidate:
		return registryv1.RolloutState_ROLLOUT_STATE_CANDIDATE
	case fleet.NodeFailed:
		return registryv1.RolloutState_ROLLOUT_STATE_FAILED
	case fleet.NodeWaiting:
		return registryv1.RolloutState_ROLLOUT_STATE_WAITING
	case fleet.NodeUnknown:
		return registryv1.RolloutState_ROLLOUT_STATE_UNKNOWN
	case fleet.NodeLost:
		return registryv1.RolloutState_ROLLOUT_STATE_LOST
	}
	return registryv1.RolloutState_ROLLOUT_STATE_UNSPECIFIED
}

func fromNodes(who access.Identity, nodes *fleet.Nodes) *registryv1.WatchRolloutResponse {
	resp := &registryv1.WatchRolloutResponse{
		Status:      fromStatus(who, &nodes.Status, maxReason, true),
		OtherGroups: int32(nodes.OtherNo),
		TotalAgents: int32(nodes.Total),
		Lost:        nodes.Lost[:min(len(nodes.Lost), maxLost)],
	}
	for i := range nodes.Groups {
		resp.Groups = append(resp.Groups, fromGroup(&nodes.Groups[i]))
	}
	if nodes.OtherNo > 0 {
		resp.Others = fromGroup(&nodes.Others)
	}
	reason := maxReason
	if len(nodes.Agents) > fewNodes {
		reason = watchedReason
	}
	for i := range nodes.Agents {
		node := &nodes.Agents[i]
		agent := &registryv1.RolloutAgent{
			Agent: node.Agent, Group: node.Group, State: fromNodeState(node.State), Why: cutText(node.Why, reason),
			ActivatedRevision: int64(node.Activated), Calls: node.Calls, FailedCalls: node.FailedCalls,
		}
		if node.Err != nil {
			agent.Error = wire.FromError(cut(node.Err, reason))
		}
		resp.Agents = append(resp.Agents, agent)
	}
	if of := nodes.Compared; of != nil {
		resp.CandidateCalls, resp.ActiveCalls = fromTally(&of.Candidate), fromTally(&of.Active)
	}
	return resp
}

func fromGroup(g *fleet.NodeGroup) *registryv1.RolloutGroup {
	n := func(state fleet.NodeState) int32 { return int32(g.Count[state]) } //nolint:gosec // agents of a fleet
	return &registryv1.RolloutGroup{
		Value: g.Value, Agents: n(fleet.AnyNode), Active: n(fleet.NodeActive), Passed: n(fleet.NodePassed), Candidate: n(fleet.NodeCandidate),
		Failed: n(fleet.NodeFailed), Waiting: n(fleet.NodeWaiting), Unknown: n(fleet.NodeUnknown), Lost: n(fleet.NodeLost),
	}
}

func fromTally(t *fleet.Tally) *registryv1.RolloutCalls {
	m := &registryv1.RolloutCalls{Calls: t.Calls, FailedCalls: t.FailedCalls}
	if t.Calls > 0 {
		of := compare.Latencies(t.Latencies)
		m.P50, m.P99 = latency(script.LatencyBound(of.Percentile(50))), latency(script.LatencyBound(of.Percentile(99)))
	}
	return m
}
