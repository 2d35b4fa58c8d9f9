package inside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// newCalls returns what has counted no calls yet, of the scripts of the table.
func newCalls(t *testing.T, table *cache.Table) *callstats.Stats {
	t.Helper()
	calls, err := callstats.New(callstats.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// accountant is an agent that adds up the calls that it gets, unless it is away.
type accountant struct {
	workerv1.HomeClient
	away               bool
	requests, together int
	calls              uint64
}

func (a *accountant) Calls(_ context.Context, req *workerv1.CallsRequest, _ ...grpc.CallOption) (*workerv1.CallsResponse, error) {
	if a.requests++; a.away {
		return nil, errors.New("away")
	}
	for _, s := range req.GetScripts() {
		a.calls += s.GetOutcomes()[0]
	}
	a.together = max(a.together, len(req.GetScripts()))
	return &workerv1.CallsResponse{}, nil
}

// TestCallsArriveOnce: the worker sends again what did not arrive, and nothing twice.
func TestCallsArriveOnce(t *testing.T) {
	const scripts = callsTogether + 10
	table := cache.NewTable()
	for i := range scripts {
		table.Update([]*cache.Release{cache.NewRelease(script.Release{Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}})}, nil)
	}
	calls := newCalls(t, table)
	agent := &accountant{away: true}
	s := &service{process: &process{log: slog.New(slog.DiscardHandler)}, table: table, calls: calls, home: home{client: agent}}
	for range 3 {
		for i := range scripts {
			e := execute.Unrun(&gateway.Call{}, &gateway.Reply{}, table.Get(fmt.Sprint("acme/s", i)), time.Now())
			_ = calls.Ended(t.Context(), e)
		}
		s.bring(t.Context())
		agent.away = false
	}
	s.bring(t.Context())
	if agent.calls != 3*scripts || agent.requests != 5 || agent.together != callsTogether {
		t.Errorf("%d calls of %d in %d requests, of %d scripts at most", agent.calls, 3*scripts, agent.requests, agent.together)
	}
}
