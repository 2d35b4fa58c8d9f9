// Package shadowdiff collects from the agents of the fleet where the results of a candidate differ from
// the live ones in the shadow of calls.
package shadowdiff

import (
	"context"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a collection.
const (
	timeout = 5 * time.Second
	// agentBytes bounds the answer of one agent, and allBytes all answers.
	agentBytes = 256 << 10
	allBytes   = 16 << 20
	// agentCalls is more than an agent counts. The counts of many agents add up.
	agentCalls = 1 << 40
)

// Request says whose findings to collect.
type Request struct {
	Caller  string         // identifies the user
	Release script.Release // it has a candidate
	Agents  []string       // names or patterns; all if empty
}

// Collection is what the agents found together.
type Collection struct {
	Calls    script.ShadowCalls
	Findings script.ShadowFindings
	Result   query.Result
}

// Asker sends queries to agents: see query.Asker.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// Collect queries the agents.
func Collect(ctx context.Context, asker Asker, req Request) (Collection, error) {
	c, of := req.Release.Candidate, req.Release.Name
	var found Collection
	result, err := asker.Ask(ctx, query.Question{
		Caller: req.Caller, Agents: req.Agents, Tenant: of.Tenant, Timeout: timeout, AgentBytes: agentBytes, Bytes: allBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_Shadow{Shadow: &eventv1.ShadowQuery{Name: of.Script, Version: c.Version.Number, Attempt: c.Attempt}}},
	}, func(p query.Part) {
		if !p.Tenants.Matches(of.Tenant) { // the agent may not follow the tenant
			return
		}
		m := p.Answer.GetShadow()
		if calls := wire.ToShadowCalls(m.GetCalls()); calls != nil && max(calls.Compared(), calls.Dropped) <= agentCalls {
			found.Calls.Step = max(found.Calls.Step, calls.Step)
			found.Calls.Add(*calls)
		}
		findings := wire.ToFindings(m.GetFindings())
		found.Findings.Add(&findings)
	})
	found.Result = result
	return found, err
}
