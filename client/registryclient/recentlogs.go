package registryclient

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/engine"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// RecentLogsFilter says which lines RecentLogs returns.
type RecentLogsFilter struct {
	Of      script.Name   // all scripts of the tenant if it has no Script
	Agents  []string      // names, or patterns such as "edge-*"; all agents if empty
	Version uint64        // all if 0
	Level   engine.Level  // the least; all if empty
	Grep    string        // an RE2 expression that messages match; all if empty
	Since   time.Duration // how old lines may be; any age if 0
	Limit   int           // the newest, at most 10,000; 1,000 if 0
}

// RecentLogs are lines that agents keep.
type RecentLogs struct {
	Lines     []AgentLogLine // in order of their time
	Truncated bool           // agents have more lines that match
	Evicted   bool           // agents have dropped lines of that age, to make room for others
	Result    QueryResult
}

// AgentLogLine is a line of one agent.
type AgentLogLine struct {
	Agent string
	LogLine
}

// QueryResult says which agents answered a query of the registry. The counts are of all; the lists name
// at most 100 agents.
type QueryResult struct {
	Answered int // wholly
	Silent   int // not in time
	Older    int // do not know the query: their software is older
	Failed   int // could not answer, or not wholly

	SilentAgents, OlderAgents []string
	Failures                  []QueryFailure
}

// QueryFailure is why an agent did not answer, or not wholly.
type QueryFailure struct {
	Agent string
	Err   *script.Error
}

// agentsTake is how long a registry may wait for agents besides what it takes itself.
const agentsTake = 20 * time.Second

// RecentLogs returns lines that scripts logged lately and that agents keep in memory. The registry waits
// some seconds for the agents. The result says which of them answered.
func (c *Client) RecentLogs(ctx context.Context, f RecentLogsFilter) (RecentLogs, error) {
	ctx, cancel := c.bounded(ctx, agentsTake)
	defer cancel()
	req := &registryv1.RecentLogsRequest{
		Tenant: f.Of.Tenant, Name: f.Of.Script, Agents: f.Agents, Version: f.Version, Level: string(f.Level), Grep: f.Grep,
		Limit: int32(min(f.Limit, 1<<30)), //nolint:gosec // bounded
	}
	if f.Since != 0 {
		req.Since = durationpb.New(f.Since)
	}
	stream, err := c.registry.RecentLogs(ctx, req)
	if err != nil {
		return RecentLogs{}, c.fault(ctx, err)
	}
	var found RecentLogs
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return RecentLogs{}, script.Errorf(script.Unavailable, "", "the registry at %s ended the stream: it may be restarting", c.target)
		}
		if err != nil {
			return RecentLogs{}, c.fault(ctx, err)
		}
		for _, l := range resp.GetLines() {
			found.Lines = append(found.Lines, AgentLogLine{Agent: l.GetAgent(), LogLine: toLogLine(l.GetLine())})
		}
		if resp.GetResult() != nil {
			found.Truncated, found.Evicted, found.Result = resp.GetTruncated(), resp.GetEvicted(), toQueryResult(resp.GetResult())
			return found, nil
		}
	}
}

func toQueryResult(m *registryv1.QueryResult) QueryResult {
	r := QueryResult{
		Answered: int(m.GetAnswered()), Silent: int(m.GetSilent()), Older: int(m.GetOlder()), Failed: int(m.GetFailed()),
		SilentAgents: m.GetSilentAgents(), OlderAgents: m.GetOlderAgents(),
	}
	for _, f := range m.GetFailures() {
		r.Failures = append(r.Failures, QueryFailure{Agent: f.GetAgent(), Err: wire.ToError(f.GetError())})
	}
	return r
}
