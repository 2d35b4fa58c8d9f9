package registryclient

import (
	"context"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ShadowDiff is what agents found in the shadow of calls.
type ShadowDiff struct {
	Candidate, Active uint64 // the versions
	Calls             script.ShadowCalls
	Findings          script.ShadowFindings
	Result            QueryResult
}

// ShadowDiff returns where the results of the script's candidate differ from the live ones in its shadow
// step. agents are names, or patterns such as "edge-*"; all agents if empty. The registry waits some
// seconds for the agents. The result says which of them answered.
func (c *Client) ShadowDiff(ctx context.Context, of script.Name, agents []string) (ShadowDiff, error) {
	ctx, cancel := c.bounded(ctx, agentsTake)
	defer cancel()
	m, err := c.registry.ShadowDiff(ctx, &registryv1.ShadowDiffRequest{Tenant: of.Tenant, Name: of.Script, Agents: agents})
	if err != nil {
		return ShadowDiff{}, c.fault(ctx, err)
	}
	d := ShadowDiff{Candidate: m.GetCandidate(), Active: m.GetActive(), Findings: wire.ToFindings(m.GetFindings()), Result: toQueryResult(m.GetResult())}
	if calls := wire.ToShadowCalls(m.GetCalls()); calls != nil {
		d.Calls = *calls
	}
	return d, nil
}
