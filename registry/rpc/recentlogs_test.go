package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// oracle answers each question in the name of one agent: with 450 lines of the script that is asked for.
// It is too busy for the script "crowded", and never has an answer for "slow".
type oracle struct{}

func (oracle) Ask(ctx context.Context, q query.Question, take func(query.Part)) (query.Result, error) {
	m := q.Query.GetRecentLogs()
	if top := q.Query.GetTop(); top != nil {
		return askTop(ctx, top)
	}
	if q.Query.GetRecentCalls() != nil {
		take(query.Part{Agent: "n1", Answer: &eventv1.Answer{Kind: &eventv1.Answer_RecentCalls{RecentCalls: &eventv1.RecentCalls{
			Records: [][]byte{fmt.Appendf(nil, `{"timestamp":%q,"tenant":%q,"script":%q,"version":7}`, time.Now().UTC().Format(time.RFC3339Nano), q.Tenant, q.Query.GetRecentCalls().GetName())},
		}}}})
		return query.Result{Answered: []string{"n1"}}, nil
	}
	if m == nil {
		return askProfile(q, take)
	}
	switch m.GetName() {
	case "crowded":
		return query.Result{}, script.Errorf(script.Limit, "", "too many")
	case "slow":
		<-ctx.Done()
		return query.Result{}, ctx.Err()
	}
	tenants, err := script.ParseSelector([]string{q.Tenant})
	if err != nil {
		return query.Result{}, err
	}
	begun := time.Now()
	for i := range 450 {
		take(query.Part{Agent: "n1", Tenants: tenants, Answer: &eventv1.Answer{Kind: &eventv1.Answer_RecentLogs{RecentLogs: &eventv1.RecentLogs{
			Lines: []*eventv1.LogLine{{
				Time: timestamppb.New(begun.Add(time.Duration(i))), Tenant: q.Tenant, Name: "route", Version: 7, Level: "warn",
				Message: fmt.Sprint(secret, " ", i, " ", m.GetGrep()),
			}},
			Evicted: i == 7,
		}}}})
	}
	result := query.Result{Answered: []string{"n1"}, Failed: []query.Failure{{Agent: "n2", Err: &script.Error{Kind: script.Limit, Message: "too much"}}}}
	for i := range 120 {
		result.Silent, result.Older = append(result.Silent, fmt.Sprint("s", i)), append(result.Older, fmt.Sprint("o", i))
	}
	return result, nil
}

func TestRecentLogs(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	stream, err := b.RecentLogs(t.Context(), &registryv1.RecentLogsRequest{Tenant: "acme", Name: "route", Grep: "x", Limit: 420})
	if err != nil {
		t.Fatal(err)
	}
	var lines []*registryv1.RecentLogLine
	var last *registryv1.RecentLogsResponse
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if last != nil {
			t.Error("a response comes after the last")
		}
		if resp.GetResult() != nil {
			last = resp
		}
		lines = append(lines, resp.GetLines()...)
	}
	if len(lines) != 420 || !last.GetTruncated() || !last.GetEvicted() {
		t.Fatalf("%d lines, %v", len(lines), last)
	}
	if l := lines[419]; l.GetAgent() != "n1" || l.GetLine().GetMessage() != secret+" 449 x" || l.GetLine().GetVersion() != 7 || l.GetLine().GetName() != "route" {
		t.Errorf("%v", l)
	}
	if !slices.IsSortedFunc(lines, func(a, b *registryv1.RecentLogLine) int {
		return a.GetLine().GetTime().AsTime().Compare(b.GetLine().GetTime().AsTime())
	}) {
		t.Error("the lines are not in order")
	}
	r := last.GetResult()
	if r.GetAnswered() != 1 || r.GetSilent() != 120 || len(r.GetSilentAgents()) != 100 || r.GetOlder() != 120 || len(r.GetOlderAgents()) != 100 ||
		r.GetFailed() != 1 || r.GetFailures()[0].GetAgent() != "n2" || r.GetFailures()[0].GetError().GetMessage() != "too much" {
		t.Errorf("%v", r)
	}
}

func TestRecentLogsOfNothing(t *testing.T) {
	b := newBench(t)
	b.publish(t, "crowded", "one")
	for _, test := range []struct {
		req   *registryv1.RecentLogsRequest
		code  codes.Code
		field string
	}{
		{&registryv1.RecentLogsRequest{}, codes.InvalidArgument, "tenant"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Name: "Route"}, codes.InvalidArgument, "name"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Name: "never"}, codes.NotFound, "name"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Name: "crowded"}, codes.ResourceExhausted, ""},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Level: "loud"}, codes.InvalidArgument, "level"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Grep: "("}, codes.InvalidArgument, "grep"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Limit: -1}, codes.InvalidArgument, "limit"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Limit: 10_001}, codes.InvalidArgument, "limit"},
		{&registryv1.RecentLogsRequest{Tenant: "acme", Since: durationpb.New(-1)}, codes.InvalidArgument, "since"},
	} {
		stream, err := b.RecentLogs(t.Context(), test.req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != test.code || detail(t, err).GetField() != test.field {
			t.Errorf("%v: %v, want %v at %q", test.req, err, test.code, test.field)
		}
	}
}

// TestRecentLogsWhileDraining: draining ends a collection, and does not wait for agents.
func TestRecentLogsWhileDraining(t *testing.T) {
	b := newBench(t)
	b.publish(t, "slow", "one")
	stream, err := b.RecentLogs(t.Context(), &registryv1.RecentLogsRequest{Tenant: "acme", Name: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.server.Drain(ctx)
	if _, err := stream.Recv(); err == nil || ctx.Err() != nil {
		t.Errorf("%v; draining ended with %v", err, ctx.Err())
	}
}
