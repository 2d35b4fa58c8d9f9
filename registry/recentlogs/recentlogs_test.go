package recentlogs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/registry/recentlogs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// agents answer with what they say, whatever they are asked.
type agents struct {
	asked query.Question
	parts []query.Part
	err   error
}

func (a *agents) Ask(_ context.Context, q query.Question, take func(query.Part)) (query.Result, error) {
	a.asked = q
	for _, p := range a.parts {
		take(p)
	}
	return query.Result{Answered: []string{"n1"}}, a.err
}

// say has the agent, which follows the tenants, say the lines.
func (a *agents) say(t *testing.T, agent, tenants string, m *eventv1.RecentLogs) {
	t.Helper()
	of, err := script.ParseSelector([]string{tenants})
	if err != nil {
		t.Fatal(err)
	}
	a.parts = append(a.parts, query.Part{Agent: agent, Tenants: of, Answer: &eventv1.Answer{Kind: &eventv1.Answer_RecentLogs{RecentLogs: m}}})
}

func line(ago time.Duration, of, message string) *eventv1.LogLine {
	tenant, name, _ := strings.Cut(of, "/")
	return &eventv1.LogLine{Time: timestamppb.New(time.Now().Add(-ago)), Tenant: tenant, Name: name, Version: 1, Level: "info", Message: message}
}

func texts(c recentlogs.Collection) (all []string) {
	for _, l := range c.Lines {
		all = append(all, l.Agent+" "+l.Message)
	}
	return all
}

var acme = script.Name{Tenant: "acme"}

// TestLinesOfSeveralAgents are merged by their time. An agent that speaks of tenants which it does not
// follow, or of others than are asked for, is not believed.
func TestLinesOfSeveralAgents(t *testing.T) {
	var a agents
	a.say(t, "n1", "*", &eventv1.RecentLogs{Lines: []*eventv1.LogLine{
		line(3*time.Second, "acme/route", "one"), line(time.Second, "acme/cart", "three"),
		line(0, "shop/cart", "of another tenant"), line(0, "acme/..", "of no script"), line(0, "", "of nobody"),
		{},
	}})
	a.say(t, "n2", "ac*", &eventv1.RecentLogs{Lines: []*eventv1.LogLine{line(2*time.Second, "acme/route", "two\x1b[2J")}})
	a.say(t, "n3", "shop", &eventv1.RecentLogs{Lines: []*eventv1.LogLine{line(0, "acme/route", "of a tenant that it does not follow")}})
	a.parts = append(a.parts, query.Part{Agent: "n4", Answer: &eventv1.Answer{}})
	c, err := recentlogs.Collect(t.Context(), &a, recentlogs.Request{Of: acme})
	if want := []string{"n1 one", `n2 two\x1b[2J`, "n1 three"}; err != nil || !slices.Equal(texts(c), want) || c.Truncated || c.Evicted || len(c.Result.Answered) != 1 {
		t.Errorf("%q, %+v, %v; want %q", texts(c), c, err, want)
	}
	c, err = recentlogs.Collect(t.Context(), &a, recentlogs.Request{Of: script.Name{Tenant: "acme", Script: "cart"}})
	if want := []string{"n1 three"}; err != nil || !slices.Equal(texts(c), want) {
		t.Errorf("of one script: %q, %v; want %q", texts(c), err, want)
	}
}

func TestWhatAgentsAreAsked(t *testing.T) {
	var a agents
	req := recentlogs.Request{
		Caller: "ann", Of: script.Name{Tenant: "acme", Script: "route"}, Agents: []string{"edge-*"}, Version: 7, Level: "warn",
		Grep: "time ?out", Since: time.Hour, Limit: 30,
	}
	if _, err := recentlogs.Collect(t.Context(), &a, req); err != nil {
		t.Fatal(err)
	}
	m := a.asked.Query.GetRecentLogs()
	if a.asked.Caller != "ann" || a.asked.Tenant != "acme" || !slices.Equal(a.asked.Agents, req.Agents) || m.GetName() != "route" || m.GetVersion() != 7 ||
		m.GetLevel() != "warn" || m.GetGrep() != "time ?out" || m.GetSince().AsDuration() != time.Hour || m.GetLimit() != 30 {
		t.Errorf("%+v asks %v", a.asked, m)
	}
	if _, err := recentlogs.Collect(t.Context(), &a, recentlogs.Request{Of: acme}); err != nil {
		t.Fatal(err)
	}
	if m := a.asked.Query.GetRecentLogs(); m.GetSince() != nil || m.GetLimit() != recentlogs.DefaultLines || m.GetLevel() != "" {
		t.Errorf("of all: %v", m)
	}
	a.err = script.Errorf(script.Unavailable, "", "no NATS")
	if _, err := recentlogs.Collect(t.Context(), &a, recentlogs.Request{Of: acme}); script.KindOf(err) != script.Unavailable {
		t.Errorf("without NATS: %v", err)
	}
}

// TestTheNewestLines are kept, however many come, and in whatever order.
func TestTheNewestLines(t *testing.T) {
	var a agents
	for agent := range 20 {
		m := &eventv1.RecentLogs{Evicted: agent == 3}
		for i := range 500 {
			m.Lines = append(m.Lines, line(time.Duration(i*20+agent)*time.Second, "acme/route", fmt.Sprint(i*20+agent)))
		}
		a.say(t, fmt.Sprint("n", agent), "*", m)
	}
	c, err := recentlogs.Collect(t.Context(), &a, recentlogs.Request{Of: acme, Limit: 45})
	if err != nil || len(c.Lines) != 45 || !c.Truncated || !c.Evicted {
		t.Fatalf("%d lines, truncated %v, evicted %v, %v", len(c.Lines), c.Truncated, c.Evicted, err)
	}
	for i, l := range c.Lines {
		if want := fmt.Sprint(44 - i); l.Message != want {
			t.Errorf("line %d is that of %s seconds ago, want %s", i, l.Message, want)
		}
	}
	if cap(c.Lines) > 4*45 {
		t.Errorf("%d lines were in memory", cap(c.Lines))
	}
}
