// Package recentcalls collects records of recent calls of a script from the agents of the fleet. Agents keep few in memory.
package recentcalls

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/decision"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a collection.
const (
	// MaxCalls is the maximum of Request.Limit, and DefaultCalls its default.
	MaxCalls     = 100
	DefaultCalls = 20

	timeout = 5 * time.Second
	// agentBytes bounds the answer of one agent, and allBytes all answers.
	agentBytes = 512 << 10
	allBytes   = 16 << 20
	// maxRecord bounds one record, and keptBytes those that are returned.
	maxRecord = 64 << 10
	keptBytes = 2 << 20
	// maxSkew is how far the clock of an agent may be ahead.
	maxSkew = time.Hour
	// maxAge is more than an agent runs. What is older is no time.
	maxAge = 20 * 365 * 24 * time.Hour
)

// Request selects the calls to collect.
type Request struct {
	Caller string // identifies the user
	Of     script.Name
	Agents []string // names or patterns; all if empty
	Limit  int      // the number of newest calls; DefaultCalls if 0
}

// Call is a recorded call.
type Call struct {
	Agent   string
	Time    time.Time
	Version uint64
	Record  []byte // a decision.Record as JSON
}

// Collection has the records that the agents returned, the newest first.
type Collection struct {
	Calls  []Call
	Result query.Result
}

// Asker sends queries to agents: see query.Asker.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// Collect queries the agents.
func Collect(ctx context.Context, asker Asker, req Request) (Collection, error) {
	if req.Limit < 0 || req.Limit > MaxCalls {
		return Collection{}, script.Errorf(script.Invalid, "limit", "is %d, want 1 to %d", req.Limit, MaxCalls)
	}
	if req.Limit == 0 {
		req.Limit = DefaultCalls
	}
	var found Collection
	result, err := asker.Ask(ctx, query.Question{
		Caller: req.Caller, Agents: req.Agents, Tenant: req.Of.Tenant, Timeout: timeout, AgentBytes: agentBytes, Bytes: allBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_RecentCalls{RecentCalls: &eventv1.RecentCallsQuery{Name: req.Of.Script, Limit: int32(req.Limit)}}}, //nolint:gosec // at most MaxCalls
	}, func(p query.Part) {
		if !p.Tenants.Matches(req.Of.Tenant) { // the agent may not follow the tenant
			return
		}
		for _, record := range p.Answer.GetRecentCalls().GetRecords() {
			if call, ok := read(record, req.Of); ok {
				call.Agent = p.Agent
				found.Calls = append(found.Calls, call)
			}
		}
		if len(found.Calls) > 4*req.Limit {
			found.trim(req.Limit)
		}
	})
	found.trim(req.Limit)
	found.Result = result
	return found, err
}

// read reads a record, which is not believed to be of the script.
func read(record []byte, of script.Name) (call Call, ok bool) {
	var m decision.Record
	if len(record) > maxRecord || json.Unmarshal(record, &m) != nil || m.Tenant != of.Tenant || m.Script != of.Script {
		return Call{}, false
	}
	if age := time.Since(m.Timestamp); age < -maxSkew || age > maxAge {
		return Call{}, false
	}
	return Call{Time: m.Timestamp, Version: m.Version, Record: record}, true
}

// trim drops all but the newest.
func (c *Collection) trim(most int) {
	slices.SortStableFunc(c.Calls, func(a, b Call) int { return b.Time.Compare(a.Time) })
	c.Calls = c.Calls[:min(len(c.Calls), most)]
	bytes := 0
	for i := range c.Calls {
		if bytes += len(c.Calls[i].Record); bytes > keptBytes {
			c.Calls = c.Calls[:i]
			return
		}
	}
}
