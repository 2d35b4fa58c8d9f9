// Package recentlogs collects recent log lines of scripts from the agents of the fleet. Agents keep the lines in memory.
package recentlogs

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/fanout"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a collection.
const (
	// MaxLines is the maximum of Request.Limit, and DefaultLines its default.
	MaxLines     = 10_000
	DefaultLines = 1000

	timeout = 5 * time.Second
	// agentBytes bounds the answer of one agent, and allBytes all answers.
	agentBytes = 2 << 20
	allBytes   = 16 << 20
	// maxSkew bounds the age of a line plus the difference of the clocks.
	maxSkew = 48 * time.Hour
)

// Request selects the lines to collect.
type Request struct {
	Caller  string        // identifies the user
	Of      script.Name   // all scripts of the tenant if it has no Script
	Agents  []string      // names or patterns; all if empty
	Version uint64        // all if 0
	Level   engine.Level  // the lowest level; all if empty
	Grep    string        // an RE2 expression for messages; all if empty
	Since   time.Duration // the maximum age; any age if 0
	Limit   int           // the number of newest lines; DefaultLines if 0
}

// Line is a log line of an agent.
type Line struct {
	Agent string
	fleet.LogLine
}

// Collection has the lines that the agents returned.
type Collection struct {
	Lines     []Line // sorted by time
	Truncated bool   // more lines match
	Evicted   bool   // agents dropped lines of that age, to make room for newer ones
	Result    query.Result
}

// Asker sends queries to agents: see query.Asker.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// Collect queries the agents, and returns the newest lines of all of them.
func Collect(ctx context.Context, asker Asker, req Request) (Collection, error) {
	if err := req.validate(); err != nil {
		return Collection{}, err
	}
	m := &eventv1.RecentLogsQuery{Name: req.Of.Script, Version: req.Version, Level: string(req.Level), Grep: req.Grep, Limit: int32(req.Limit)} //nolint:gosec // at most MaxLines
	if req.Since > 0 {
		m.Since = durationpb.New(req.Since)
	}
	c := collector{of: req.Of, most: req.Limit}
	result, err := asker.Ask(ctx, query.Question{
		Caller: req.Caller, Agents: req.Agents, Tenant: req.Of.Tenant, Timeout: timeout, AgentBytes: agentBytes, Bytes: allBytes,
		Query: &eventv1.Query{Kind: &eventv1.Query_RecentLogs{RecentLogs: m}},
	}, c.take)
	if err != nil {
		return Collection{}, err
	}
	c.trim()
	return Collection{Lines: c.lines, Truncated: c.truncated, Evicted: c.evicted, Result: result}, nil
}

func (r *Request) validate() error {
	switch r.Level {
	case "", engine.Info, engine.Warn, engine.Error:
	default:
		return script.Errorf(script.Invalid, "level", "%.80q is no level: want info, warn or error", r.Level)
	}
	if r.Since < 0 {
		return script.Errorf(script.Invalid, "since", "%v is negative", r.Since)
	}
	if r.Limit < 0 || r.Limit > MaxLines {
		return script.Errorf(script.Invalid, "limit", "is %d, want 1 to %d", r.Limit, MaxLines)
	}
	if r.Limit == 0 {
		r.Limit = DefaultLines
	}
	_, err := wire.CompileGrep(r.Grep)
	return err
}

// collector keeps the newest lines of all answers.
type collector struct {
	of        script.Name
	most      int
	lines     []Line
	truncated bool
	evicted   bool
}

// take adds the lines of the requested scripts, if the agent may follow their tenant.
func (c *collector) take(p query.Part) {
	now := time.Now()
	m := p.Answer.GetRecentLogs()
	c.truncated, c.evicted = c.truncated || m.GetTruncated(), c.evicted || m.GetEvicted()
	if !p.Tenants.Matches(c.of.Tenant) {
		return
	}
	for _, l := range m.GetLines() {
		line, ok := fanout.ReadLogLine(l, now, maxSkew)
		if !ok || line.Script.Tenant != c.of.Tenant || c.of.Script != "" && line.Script.Script != c.of.Script {
			continue
		}
		c.lines = append(c.lines, Line{Agent: p.Agent, LogLine: line})
		if len(c.lines) >= 2*c.most+c.most/2 {
			c.trim()
		}
	}
}

// trim drops all but the newest lines.
func (c *collector) trim() {
	slices.SortStableFunc(c.lines, func(a, b Line) int { return a.Time.Compare(b.Time) })
	if n := len(c.lines) - c.most; n > 0 {
		c.lines, c.truncated = slices.Delete(c.lines, 0, n), true
	}
}
