package agent

import (
	"context"
	"regexp"
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
	// linesBytes is the approximate size of the lines in a part.
	linesBytes = answer.MaxPart / 4
	// endBytes is reserved for the end of an answer.
	endBytes = 256
)

// sendAnswer sends a part of an answer, signed by the current session.
func (a *Agent) sendAnswer(m *eventv1.Answer) error {
	return a.feed.SendAnswer(m, a.follower.Session())
}

// levels in ascending order.
var levels = []engine.Level{engine.Info, engine.Warn, engine.Error}

// recentLogs answers a query for recent log lines of scripts.
func (a *Agent) recentLogs(ctx context.Context, q *eventv1.Query, send answer.Send) error {
	search, err := newSearch(q)
	if err != nil {
		return err
	}
	found, err := search.run(ctx, a.logs)
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
	part.Truncated, part.Evicted = search.truncated || first > 0, search.evicted
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

// lineSize is an upper bound of the bytes that a line takes in an answer.
func lineSize(l *recentLine) int64 {
	return int64(64 + len(l.of.Tenant) + len(l.of.Script) + len(l.Level) + len(l.Message) + len(l.TraceID))
}

// search finds the lines that match a query.
type search struct {
	of      script.Name
	version uint64
	least   int // index of the lowest level
	grep    *regexp.Regexp
	since   time.Time
	most    int

	truncated bool // more lines match
	evicted   bool // the ring has dropped lines that may match
}

func newSearch(q *eventv1.Query) (*search, error) {
	m := q.GetRecentLogs()
	s := &search{
		of: script.Name{Tenant: q.GetTenant(), Script: m.GetName()}, version: m.GetVersion(),
		least: slices.Index(levels, engine.Level(m.GetLevel())), most: maxRecentLines,
	}
	if s.of.Tenant == "" {
		return nil, script.Errorf(script.Invalid, "tenant", "is empty")
	}
	if m.GetSince() != nil {
		s.since = time.Now().Add(-m.GetSince().AsDuration())
	}
	if n := int(m.GetLimit()); n > 0 {
		s.most = min(s.most, n)
	}
	if m.GetGrep() == "" {
		return s, nil
	}
	var err error
	s.grep, err = wire.CompileGrep(m.GetGrep())
	return s, err
}

// run returns the newest lines that match, sorted by time.
func (s *search) run(ctx context.Context, in *logring.Ring) (found []recentLine, err error) {
	until := time.Now().Add(searchFor)
	for _, kept := range in.Of(s.of) {
		s.evicted = s.evicted || !s.since.IsZero() && kept.Lost.After(s.since)
		before := len(found)
		for _, l := range slices.Backward(kept.Lines) {
			if l.Time.Before(s.since) {
				break
			}
			if s.version != 0 && l.Version != s.version || slices.Index(levels, l.Level) < s.least {
				continue
			}
			if s.grep != nil {
				if ctx.Err() != nil || time.Now().After(until) {
					return nil, script.Errorf(script.Limit, "grep", "takes the agent longer than %v: use a simpler expression, or ask for fewer lines", searchFor)
				}
				if !s.grep.MatchString(l.Message) {
					continue
				}
			}
			if len(found)-before == s.most {
				s.truncated = true
				break
			}
			found = append(found, recentLine{of: kept.Script, Line: l})
		}
		slices.Reverse(found[before:])
	}
	slices.SortStableFunc(found, func(a, b recentLine) int { return a.Time.Compare(b.Time) })
	if len(found) > s.most {
		found, s.truncated = found[len(found)-s.most:], true
	}
	return found, nil
}
