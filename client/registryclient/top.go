package registryclient

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TopFilter says which scripts Top returns.
type TopFilter struct {
	Of     script.Name   // all scripts of the tenant if it has no Script; all, which needs the role read of all, if it is zero
	Period time.Duration // that agents count, at most 10 s; 2 s if 0
	Sort   string        // "calls", "errors", "p50" or "p99"; calls if empty
	Limit  int           // at most 1,000; 100 if 0
}

// Top is the calls of scripts on the fleet now.
type Top struct {
	Scripts   []ScriptRates // in the order that was asked for
	Total     ScriptRates   // of all scripts
	Truncated bool          // there are more scripts
	Result    QueryResult
}

// ScriptRates is what the calls of a script are now.
type ScriptRates struct {
	Script        script.Name // zero in a total
	Calls, Errors float64     // a second
	P50, P99      time.Duration
	Processors    float64 // that the calls keep busy
	Agents        int     // that called it
}

// Top has the fleet count calls for a while, and returns what it counted. The result says which agents answered.
func (c *Client) Top(ctx context.Context, f TopFilter) (Top, error) {
	ctx, cancel := c.bounded(ctx, agentsTake)
	defer cancel()
	req := &registryv1.TopRequest{Tenant: f.Of.Tenant, Name: f.Of.Script, Sort: f.Sort, Limit: int32(min(f.Limit, 1<<30))} //nolint:gosec // bounded
	if f.Period != 0 {
		req.Period = durationpb.New(f.Period)
	}
	resp, err := c.registry.Top(ctx, req)
	if err != nil {
		return Top{}, c.fault(ctx, err)
	}
	found := Top{Total: toRates(resp.GetTotal()), Truncated: resp.GetTruncated(), Result: toQueryResult(resp.GetResult())}
	for _, m := range resp.GetScripts() {
		found.Scripts = append(found.Scripts, toRates(m))
	}
	return found, nil
}

func toRates(m *registryv1.ScriptRates) ScriptRates {
	return ScriptRates{
		Script: script.Name{Tenant: m.GetTenant(), Script: m.GetName()}, Calls: m.GetCallsPerSecond(), Errors: m.GetErrorsPerSecond(),
		P50: m.GetP50().AsDuration(), P99: m.GetP99().AsDuration(), Processors: m.GetProcessors(), Agents: int(m.GetAgents()),
	}
}
