// Package recentlogs collects the lines that scripts logged lately from the agents of the fleet, in
// whose memory they are.
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
	// MaxLines of one collection, and DefaultLines if nothing is said.
	MaxLines     = 10_000
	DefaultLines = 1000

	timeout = 5 * time.Second
	// agentBytes and allBytes of the answers.
	agentBytes = 2 << 20
	allBytes   = 16 << 20
	// maxSkew is how old a line may be, with how far clocks may be apart.
	maxSkew = 48 * time.Hour
)

// Request says which lines to collect.
type Request struct {
	Caller  string        // who asks
	Of      script.Name   // all scripts of the tenant if it has no Script
	Agents  []string      // names or patterns; all if empty
	Version uint64        // all if 0
	Level   engine.Level  // the least; all if empty
	Grep    string        // an RE2 expression that messages match; all if empty
	Since   time.Duration // how old lines may be; any age if 0
	Limit   int           // the newest; DefaultLines if 0
}

// Line is a line of one agent.
type Line struct {
	Agent string
	fleet.LogLine
}

// Collection is what the agents keep.
type Collection struct {
	Lines     []Line // by their time
	Truncated bool   // agents have more lines that match
	Evicted   bool   // agents have dropped lines of that age, to make room for others
	Result    query.Result
}

// Asker asks agents.
type Asker interface {
	Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error)
}

// Collect asks the agents, and returns the newest lines of all.
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

// collector keeps the newest lines of all that come.
type collector struct {
	of        script.Name
	most      int
	lines     []Line
	truncated bool
	evicted   bool
}

// take takes the lines that the agent may speak of, and that are asked for.
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
