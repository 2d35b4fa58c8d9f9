package agent

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	"github.com/scriptorium-dev/scriptorium/agent/logring"
	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of an answer with recent lines.
const (
	maxRecentLines = 10_000
	// searchFor bounds the time that the agent spends on an expression.
	searchFor = 500 * time.Millisecond
	// linesBytes of lines go into a part, about.
	linesBytes = answer.MaxPart / 4
	// endBytes of an answer are left for its end.
	endBytes = 256
)

// sendAnswer sends a part of an answer in the session of now.
func (a *Agent) sendAnswer(m *eventv1.Answer) error {
	return a.feed.SendAnswer(m, a.follower.Session())
}

// levels, the least first.
var levels = []engine.Level{engine.Info, engine.Warn, engine.Error}

// recentLogs answers a query for lines that scripts logged lately.
func (a *Agent) recentLogs(ctx context.Context, q *eventv1.Query, send answer.Send) error {
	found, truncated, err := a.findRecent(ctx, q.GetTenant(), q.GetRecentLogs())
	if err != nil {
		return err
	}
	room := q.GetMaxBytes() - endBytes
	first := len(found)
	for first > 0 && room > 0 {
		if room -= lineSize(&found[first-1]); room >= 0 {
			first--
		}
	}
	truncated = truncated || first > 0
	part := &eventv1.RecentLogs{}
	bytes := int64(0)
	for i := range found[first:] {
		line := &found[first+i]
		if bytes += lineSize(line); bytes > linesBytes && len(part.GetLines()) > 0 {
			if err := send(&eventv1.Answer{Kind: &eventv1.Answer_RecentLogs{RecentLogs: part}}); err != nil {
				return err
			}
			part, bytes = &eventv1.RecentLogs{}, lineSize(line)
		}
		part.Lines = append(part.Lines, line.message())
	}
	part.Truncated = truncated
	return send(&eventv1.Answer{Kind: &eventv1.Answer_RecentLogs{RecentLogs: part}})
}

// recentLine is a line that was found.
type recentLine struct {
	of script.Name
	logring.Line
}

func (l *recentLine) message() *eventv1.LogLine {
	return &eventv1.LogLine{
		Time: timestamppb.New(l.Time), Tenant: l.of.Tenant, Name: l.of.Script, Version: l.Version,
		Level: string(l.Level), Message: l.Message, TraceId: l.TraceID,
	}
}

// lineSize is what a line takes of an answer, and more: that of its message is not known before.
func lineSize(l *recentLine) int64 {
	return int64(64 + len(l.of.Tenant) + len(l.of.Script) + len(l.Level) + len(l.Message) + len(l.TraceID))
}

// findRecent returns the newest lines that are asked for, in order of their time. truncated says that
// there are more, or were.
func (a *Agent) findRecent(ctx context.Context, tenant string, q *eventv1.RecentLogsQuery) (found []recentLine, truncated bool, err error) {
	if tenant == "" {
		return nil, false, script.Errorf(script.Invalid, "tenant", "is empty")
	}
	grep, err := wire.CompileGrep(q.GetGrep())
	if err != nil {
		return nil, false, err
	}
	least := slices.Index(levels, engine.Level(q.GetLevel())) // -1: all
	now := time.Now()
	since := now.Add(-logring.MaxAge)
	if q.GetSince() != nil {
		since = now.Add(-q.GetSince().AsDuration())
	}
	until := now.Add(searchFor)
	for _, kept := range a.logs.Of(script.Name{Tenant: tenant, Script: q.GetName()}) {
		truncated = truncated || q.GetSince() != nil && kept.Lost.After(since)
		before := len(found)
		for i := len(kept.Lines) - 1; i >= 0; i-- {
			l := kept.Lines[i]
			if l.Time.Before(since) {
				break
			}
			if q.GetVersion() != 0 && l.Version != q.GetVersion() || slices.Index(levels, l.Level) < least {
				continue
			}
			if q.GetGrep() != "" {
				if ctx.Err() != nil || time.Now().After(until) {
					return nil, false, script.Errorf(script.Limit, "grep", "takes the agent longer than %v: use a simpler expression, or ask for fewer lines", searchFor)
				}
				if !grep.MatchString(l.Message) {
					continue
				}
			}
			found = append(found, recentLine{of: kept.Script, Line: l})
		}
		slices.Reverse(found[before:])
	}
	slices.SortStableFunc(found, func(a, b recentLine) int { return a.Time.Compare(b.Time) })
	most := maxRecentLines
	if n := int(q.GetLimit()); n > 0 {
		most = min(most, n)
	}
	if len(found) > most {
		found, truncated = found[len(found)-most:], true
	}
	return found, truncated, nil
}
