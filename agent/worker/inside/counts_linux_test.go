package inside

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// counter is an agent that adds up the counts that it gets, unless it is away.
type counter struct {
	workerv1.HomeClient
	away          bool
	requests      int
	calls, failed uint64
	step          uint64
}

func (c *counter) Count(_ context.Context, req *workerv1.CountRequest, _ ...grpc.CallOption) (*workerv1.CountResponse, error) {
	if c.requests++; c.away {
		return nil, errors.New("away")
	}
	for _, n := range req.GetCounts() {
		c.calls += n.GetCalls()
		c.failed += n.GetFailedCalls()
		c.step += n.GetStepCalls().GetBuckets()[0]
	}
	return &workerv1.CountResponse{}, nil
}

// TestCountsArriveOnce: the worker sends again the counts that did not arrive, and none
// twice.
func TestCountsArriveOnce(t *testing.T) {
	const scripts = countsTogether + 10
	agent := &counter{away: true}
	s := &service{process: &process{log: slog.New(slog.DiscardHandler)}, table: cache.NewTable(), calls: newCalls(t, cache.NewTable()), home: home{client: agent}}
	for i := range scripts {
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, script.Release{
			Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Active: script.Version{Number: 1},
			Candidate: &script.Candidate{Version: script.Version{Number: 2}, Threshold: 1<<32 - 1, Step: 1},
			Settings:  script.Settings{Rollout: script.Plan{MaxErrorIncrease: new(1.0)}},
		})
		s.table.Update([]*cache.Release{live}, nil)
		live.Calls.Add(2, 1)
		live.Note("", time.Millisecond)
	}
	s.bring(t.Context())
	agent.away = false
	s.bring(t.Context())
	s.bring(t.Context())
	if agent.calls != 3*scripts || agent.failed != scripts || agent.step != scripts || agent.requests != 4 {
		t.Errorf("%d calls, %d failed ones and %d of steps in %d requests", agent.calls, agent.failed, agent.step, agent.requests)
	}
}

// TestCountsOfBothVersions: where keys decide, the worker sends what it counted of each version, and
// once, also if it did not arrive.
func TestCountsOfBothVersions(t *testing.T) {
	agent := &both{away: true}
	s := &service{process: &process{log: slog.New(slog.DiscardHandler)}, table: cache.NewTable(), calls: newCalls(t, cache.NewTable()), home: home{client: agent}}
	candidate := &script.Candidate{Version: script.Version{Number: 2}, Step: 1}
	candidate.Select(script.Step{By: script.ByKey}, script.KeyThreshold(10))
	live := cache.NewReleaseOn(script.Agent{Name: "n"}, script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Active: script.Version{Number: 1}, Candidate: candidate,
		Settings: script.Settings{Rollout: script.Plan{MaxErrorIncrease: new(1.0)}},
	})
	s.table.Update([]*cache.Release{live}, nil)
	live.Split.Note(script.Script, time.Millisecond)
	for range 9 {
		live.Note("", time.Millisecond)
	}
	for range 2 {
		s.bring(t.Context())
		agent.away = false
	}
	s.bring(t.Context())
	if agent.calls != 1 || agent.step != 1 || agent.active != 9 {
		t.Errorf("%d calls of the candidate, %d in the step, and %d of the active version", agent.calls, agent.step, agent.active)
	}
}

// both adds up the calls of two versions, unless it is away.
type both struct {
	workerv1.HomeClient
	away                bool
	calls, step, active uint64
}

func (b *both) Count(_ context.Context, req *workerv1.CountRequest, _ ...grpc.CallOption) (*workerv1.CountResponse, error) {
	if b.away {
		return nil, errors.New("away")
	}
	for _, n := range req.GetCounts() {
		b.calls += n.GetCalls()
		b.step += n.GetStepCalls().GetBuckets()[0]
		b.active += n.GetActiveCalls().GetBuckets()[0]
	}
	return &workerv1.CountResponse{}, nil
}

// messages is an agent that takes messages of up to 1 MiB, and adds up the shadows that they say.
type messages struct {
	workerv1.HomeClient
	shadows uint64
}

func (m *messages) Count(_ context.Context, req *workerv1.CountRequest, _ ...grpc.CallOption) (*workerv1.CountResponse, error) {
	if text, err := proto.Marshal(req); err != nil || len(text) > 1<<20 {
		return nil, fmt.Errorf("%d bytes: %w", len(text), err)
	}
	for _, n := range req.GetCounts() {
		m.shadows += n.GetShadow().GetDifferent()
	}
	return &workerv1.CountResponse{}, nil
}

// TestSamplesOfManyScriptsArrive: samples do not make messages larger than the agent takes.
func TestSamplesOfManyScriptsArrive(t *testing.T) {
	agent := &messages{}
	s := &service{process: &process{log: slog.New(slog.DiscardHandler)}, table: cache.NewTable(), calls: newCalls(t, cache.NewTable()), home: home{client: agent}}
	const scripts = 40
	step := script.Step{By: script.ByShadow, Percent: 100}
	for i := range scripts {
		r := script.Release{
			Name: script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, Active: script.Version{Number: 1},
			Candidate: &script.Candidate{Version: script.Version{Number: 2}, Step: 1},
			Settings:  script.Settings{Rollout: script.Plan{Steps: []script.Step{step}}},
		}
		r.Candidate.Select(step, script.ShadowThreshold(100))
		live := cache.NewReleaseOn(script.Agent{Name: "n"}, r)
		s.table.Update([]*cache.Release{live}, nil)
		for n := range script.MaxShadowSamples {
			text := strings.Repeat("x", 4<<10)
			live.Shadow.Differ(script.ShadowSample{Input: text, Live: text, Shadow: text, Paths: []string{fmt.Sprint("/", n)}})
			live.Shadow.Note(shadow.Different, false)
		}
	}
	s.bring(t.Context())
	if want := uint64(scripts * script.MaxShadowSamples); agent.shadows != want {
		t.Errorf("%d shadows arrive, want %d", agent.shadows, want)
	}
}
