package fanout_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/query"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestQueries: two replicas ask at once over NATS, each gets the answers to its own query, in large
// parts and in order, and listens only as long as it asks.
func TestQueries(t *testing.T) {
	n := startNATS(t, embedded.NATSConfig{})
	agent := listen(t, n.URL())
	session := sessionFor(t, &eventv1.Status{Agent: "n1.internal", Incarnation: "1"})
	const parts = 20
	text := strings.Repeat("x", 100<<10)
	if _, err := agent.nc.Subscribe("test.query", func(msg *nats.Msg) {
		var q eventv1.Query
		if _, err := keyring.Open(msg.Data, &q); err != nil {
			t.Error(err)
		}
		for i := range uint32(parts) {
			data, err := seal.SealAnswer(&eventv1.Answer{
				Fleet: "f", Id: q.GetId(), Agent: "n1.internal", Number: i, Last: i == parts-1, Kind: &eventv1.Answer_RecentLogs{
					RecentLogs: &eventv1.RecentLogs{Lines: []*eventv1.LogLine{{Name: q.GetRecentLogs().GetName(), Version: uint64(i), Message: text}}},
				},
			}, session)
			if err == nil {
				err = agent.nc.Publish("test.answers.n1.internal", data)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := agent.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 2 {
		f := connect(t, n.URL(), make(chan fleet.Report, 1))
		asker := query.New(query.Config{
			Transport: f, Fleet: func() string { return "f" }, Sessions: sessions{}, Log: slog.New(slog.DiscardHandler),
			Targets: func(string) []query.Target {
				return []query.Target{{Agent: "n1.internal", Identity: "agents", Answers: true}}
			},
		})
		all.Go(func() {
			for round := range 2 {
				name, taken := fmt.Sprint("replica-", i, "-", round), uint64(0)
				result, err := asker.Ask(t.Context(), query.Question{
					Timeout: patience, AgentBytes: 10 << 20,
					Query: &eventv1.Query{Kind: &eventv1.Query_RecentLogs{RecentLogs: &eventv1.RecentLogsQuery{Name: name}}},
				}, func(p query.Part) {
					l := p.Answer.GetRecentLogs().GetLines()[0]
					if p.Agent != "n1.internal" || l.GetName() != name || l.GetVersion() != taken || l.GetMessage() != text {
						t.Errorf("%s gets part %d of %s from %s", name, l.GetVersion(), l.GetName(), p.Agent)
					}
					taken++
				})
				if err != nil || len(result.Answered) != 1 || taken != parts {
					t.Errorf("%s: %+v with %d parts, %v", name, result, taken, err)
				}
			}
		})
	}
	all.Wait()
}

// TestQueriesWithoutNATS are refused at once.
func TestQueriesWithoutNATS(t *testing.T) {
	f := connect(t, "nats://127.0.0.1:1", make(chan fleet.Report, 1))
	asker := query.New(query.Config{
		Transport: f, Fleet: func() string { return "f" }, Sessions: sessions{}, Log: slog.New(slog.DiscardHandler),
		Targets: func(string) []query.Target { return []query.Target{{Agent: "n1", Answers: true}} },
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := asker.Ask(ctx, query.Question{Timeout: time.Minute, Query: &eventv1.Query{Kind: &eventv1.Query_RecentLogs{}}}, nil)
	if script.KindOf(err) != script.Unavailable || ctx.Err() != nil {
		t.Errorf("%v", err)
	}
	if err := f.PublishQuery(ctx, proto.CloneOf(&eventv1.Query{})); script.KindOf(err) != script.Unavailable {
		t.Errorf("PublishQuery: %v", err)
	}
}
