package local_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// talks logs two lines for each call.
const talks = `function handle(who) log.info("hello " .. who) log.warn("bye " .. who) end`

// TestRecentLogs: what scripts logged before anybody looked comes from the memory of all agents, also
// that of a tenant with its own process.
func TestRecentLogs(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	settings := &script.TenantSettings{Isolation: script.IsolationProcess, MemoryBytes: 128 << 20}
	if _, _, err := s.registry.SetTenant(ctx, "shop", settings, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	traced := agentclient.ContextWithTraceparent(ctx, "00-"+traceID+"-00f067aa0ba902b7-01")
	for _, tenant := range []string{"acme", "shop"} {
		of := script.Name{Tenant: tenant, Script: "talker"}
		p, err := s.registry.Publish(ctx, registryclient.PublishRequest{
			Name: of, Source: []byte(talks), Write: registryclient.Write{Author: "test"},
			Settings: &script.Settings{Spec: patient()}, // a call that is late logs, too
		})
		if err != nil {
			t.Fatal(err)
		}
		s.convergeOf(of, p.Release.Revision)
		for i := range agents {
			// The first process of a tenant starts cold, which may take longer than a call waits.
			if !eventually(ctx, func() bool {
				_, err := s.agents[i].Call(traced, of.String(), fmt.Sprintf("%s-%d", tenant, i+1))
				return err == nil
			}) {
				t.Fatalf("agent %d does not run %s", i+1, of)
			}
		}
	}
	s.forgeAnswers()
	for _, tenant := range []string{"acme", "shop"} {
		var found registryclient.RecentLogs
		all := func() bool {
			var err error
			if found, err = s.registry.RecentLogs(ctx, registryclient.RecentLogsFilter{Of: script.Name{Tenant: tenant}}); err != nil {
				t.Fatal(err)
			}
			return len(found.Lines) == 2*agents
		}
		if !eventually(ctx, all) { // a process sends its lines a moment later
			t.Fatalf("%s: %+v", tenant, found)
		}
		if found.Result.Answered != agents || found.Truncated || found.Result.Silent+found.Result.Older+found.Result.Failed > 0 {
			t.Errorf("%s: %+v, truncated %v", tenant, found.Result, found.Truncated)
		}
		if !slices.IsSortedFunc(found.Lines, func(a, b registryclient.AgentLogLine) int { return a.Time.Compare(b.Time) }) {
			t.Errorf("%s: the lines are not in order: %+v", tenant, found.Lines)
		}
		for _, l := range found.Lines {
			if want := fmt.Sprintf(" %s-%s", tenant, l.Agent[len("agent-"):]); l.Script.Tenant != tenant || l.Version != 1 || l.TraceID != traceID ||
				l.Message != "hello"+want && l.Message != "bye"+want {
				t.Errorf("%s: %+v", tenant, l)
			}
		}
	}
	acme := script.Name{Tenant: "acme", Script: "talker"}
	for what, test := range map[string]struct {
		filter registryclient.RecentLogsFilter
		want   int
	}{
		"one agent":      {registryclient.RecentLogsFilter{Agents: []string{"agent-2"}}, 2},
		"a pattern":      {registryclient.RecentLogsFilter{Agents: []string{"*-1", "*-3"}}, 4},
		"no agent":       {registryclient.RecentLogsFilter{Agents: []string{"edge-*"}}, 0},
		"a level":        {registryclient.RecentLogsFilter{Level: "warn"}, agents},
		"a higher level": {registryclient.RecentLogsFilter{Level: "error"}, 0},
		"a version":      {registryclient.RecentLogsFilter{Version: 1}, 2 * agents},
		"another one":    {registryclient.RecentLogsFilter{Version: 2}, 0},
		"an expression":  {registryclient.RecentLogsFilter{Grep: "^(hello|bye) acme-[23]$"}, 4},
		"a limit":        {registryclient.RecentLogsFilter{Limit: 3}, 3},
		"an age":         {registryclient.RecentLogsFilter{Since: time.Hour}, 2 * agents},
		"a moment":       {registryclient.RecentLogsFilter{Since: time.Nanosecond}, 0},
	} {
		test.filter.Of = acme
		found, err := s.registry.RecentLogs(ctx, test.filter)
		if err != nil || len(found.Lines) != test.want || found.Truncated != (what == "a limit") {
			t.Errorf("%s: %+v, %v; want %d lines", what, found, err, test.want)
		}
	}
	if _, err := s.registry.RecentLogs(ctx, registryclient.RecentLogsFilter{Of: acme, Grep: "("}); script.KindOf(err) != script.Invalid {
		t.Errorf("a wrong expression: %v", err)
	}
}

// forgeAnswers answers each Query at once, in the names of all agents, with a line that no script has
// logged: unsigned, and in a session that a registry gave to an agent of another tenant.
func (s *stack) forgeAnswers() {
	s.t.Helper()
	conn := s.natsConn()
	subjects := wire.Subjects{Prefix: wire.DefaultPrefix}
	foreign := s.session("thief", "evil")
	if _, err := conn.Subscribe(subjects.Query(), func(msg *nats.Msg) {
		var q eventv1.Query
		if _, err := seal.Unpack(msg.Data, &q); err != nil {
			s.t.Error(err)
			return
		}
		for _, agent := range []string{"agent-1", "agent-2", "agent-3", "thief"} {
			m := &eventv1.Answer{Fleet: q.GetFleet(), Id: q.GetId(), Agent: agent, Last: true, Kind: &eventv1.Answer_RecentLogs{
				RecentLogs: &eventv1.RecentLogs{Lines: []*eventv1.LogLine{
					{Time: timestamppb.Now(), Tenant: q.GetTenant(), Name: "talker", Version: 1, Level: "error", Message: "forged"},
				}},
			}}
			for _, in := range []seal.Session{{}, foreign} {
				data, err := seal.SealAnswer(m, in)
				if err := errors.Join(err, conn.Publish(subjects.Answers(agent), data)); err != nil {
					s.t.Error(err)
				}
			}
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// session returns a session that the registry gives to an agent that follows the tenant.
func (s *stack) session(agent, tenant string) seal.Session {
	s.t.Helper()
	conn, err := grpc.NewClient(s.RegistryTarget(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	stream, err := registryv1.NewFeedClient(conn).Pull(s.t.Context(), &registryv1.PullRequest{
		Nonce: []byte("a nonce of 16 by"), Agent: agent, Incarnation: "1", Tenants: []string{tenant},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	var page eventv1.Page
	if _, err := seal.Unpack(resp.GetPage(), &page); err != nil || len(page.GetSessionKey()) == 0 {
		s.t.Fatalf("no session: %v", err)
	}
	return seal.Session{Token: page.GetSession(), Key: page.GetSessionKey()}
}
