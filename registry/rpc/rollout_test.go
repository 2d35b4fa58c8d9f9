package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// candidate makes a release whose version 2 is in the first step of its plan, which compares it, known to the fleet.
func (b *bench) candidate(t *testing.T) script.Release {
	t.Helper()
	first := b.publish(t, "route", "one").GetRelease().GetRevision()
	if err := b.fleet.Reached(t.Context(), script.Revision(first)); err != nil {
		t.Fatal(err)
	}
	increase := 1.0
	r := script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: script.Revision(first) + 1, Latest: 2, Enabled: true, Active: script.Version{Number: 1}, ChangedAt: time.Now(),
		Candidate: &script.Candidate{Version: script.Version{Number: 2}, Attempt: 2, Step: 1, Threshold: 1 << 31, Since: time.Now()},
		Settings:  script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 50}}, MaxErrorIncrease: &increase}},
	}
	b.fleet.Apply(registry.Transaction{Revision: r.Revision, Releases: []script.Release{r}})
	return r
}

// TestWatchRollout: one stream has the release, its agents by zone and one by one, and the calls of both versions.
func TestWatchRollout(t *testing.T) {
	b := newBench(t)
	r := b.candidate(t)
	for i := range 20 {
		calls := &script.StepCalls{Step: 1, First: 3, Buckets: []uint64{9, 1}, FailedCalls: 1}
		b.fleet.Heard(fleet.Report{
			Fleet: b.id, Agent: fmt.Sprintf("n%02d", i), Incarnation: "1", Sequence: 1, Activated: r.Revision,
			Labels: map[string]string{"topology.kubernetes.io/zone": fmt.Sprint("z", i%2), "rack": "r"},
			Trials: []fleet.Trial{{Name: r.Name, Version: 2, Attempt: 2, StepCalls: calls}},
		})
	}
	stream, err := b.WatchRollout(t.Context(), &registryv1.WatchRolloutRequest{Tenant: "acme", Name: "route", Agents: 3, Offset: 5, State: registryv1.RolloutState_ROLLOUT_STATE_CANDIDATE})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	running, active := 0, 0
	for i, g := range m.GetGroups() {
		if g.GetValue() != fmt.Sprint("z", i) || g.GetAgents() != 10 || g.GetActive()+g.GetCandidate() != 10 {
			t.Errorf("group %d: %v", i, g)
		}
		running, active = running+int(g.GetCandidate()), active+int(g.GetActive())
	}
	s := m.GetStatus().GetScripts()[0]
	if len(m.GetGroups()) != 2 || m.GetGroupBy() != "topology.kubernetes.io/zone" || running == 0 || running != int(s.GetTrials().GetRunning()) || m.GetOthers() != nil {
		t.Errorf("%v", m)
	}
	if c, a := m.GetCandidateCalls(), m.GetActiveCalls(); c.GetCalls() != uint64(10*running) || c.GetFailedCalls() != uint64(running) || a.GetCalls() != uint64(10*active) || c.GetP50().AsDuration() <= 0 || c.GetP99().AsDuration() <= c.GetP50().AsDuration() {
		t.Errorf("%d run the candidate, with the calls %v, and %d do not, with %v", running, c, active, a)
	}
	if m.GetTotalAgents() != int32(running) || len(m.GetAgents()) > 3 || len(m.GetAgents()) != min(3, max(0, running-5)) {
		t.Errorf("%d of %d agents, of %d that run it", len(m.GetAgents()), m.GetTotalAgents(), running)
	}
	for _, a := range m.GetAgents() {
		if a.GetState() != registryv1.RolloutState_ROLLOUT_STATE_CANDIDATE || a.GetGroup() == "" || a.GetActivatedRevision() != int64(r.Revision) {
			t.Errorf("%v", a)
		}
	}
	// What does not change what it shows is not sent.
	b.fleet.Heard(fleet.Report{Fleet: b.id, Agent: "other", Incarnation: "1", Sequence: 1, Activated: r.Revision, Tenants: mustSelect(t, "shop")})
	b.fleet.Heard(fleet.Report{
		Fleet: b.id, Agent: "n00", Incarnation: "1", Sequence: 2, Activated: r.Revision, Labels: map[string]string{"topology.kubernetes.io/zone": "z0", "rack": "r"},
		Failures: []fleet.Failure{{Name: r.Name, Revision: r.Revision, Err: script.Errorf(script.Script, "", "boom %s", strings.Repeat("x", 5000))}},
	})
	for {
		if m, err = stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if m.GetGroups()[0].GetFailed() == 1 {
			break
		}
	}
	// Draining ends the watch, and does not wait for it.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.server.Drain(ctx)
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || ctx.Err() != nil {
		t.Errorf("the watch ended with %v, want Unavailable", err)
	}
}

func mustSelect(t *testing.T, globs ...string) script.Selector {
	t.Helper()
	s, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWatchRolloutRefuses what makes no sense, and says what to do.
func TestWatchRolloutRefuses(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "one")
	for _, test := range []struct {
		m    *registryv1.WatchRolloutRequest
		code codes.Code
	}{
		{&registryv1.WatchRolloutRequest{Tenant: "acme", Name: "never"}, codes.NotFound},
		{&registryv1.WatchRolloutRequest{Tenant: "acme"}, codes.InvalidArgument},
		{&registryv1.WatchRolloutRequest{Name: "route"}, codes.InvalidArgument},
		{&registryv1.WatchRolloutRequest{Tenant: "acme", Name: "route", Agents: -1}, codes.InvalidArgument},
		{&registryv1.WatchRolloutRequest{Tenant: "acme", Name: "route", Offset: -1}, codes.InvalidArgument},
		{&registryv1.WatchRolloutRequest{Tenant: "acme", Name: "route", State: 99}, codes.InvalidArgument},
	} {
		stream, err := b.WatchRollout(t.Context(), test.m)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != test.code {
			t.Errorf("%v: %v, want %v", test.m, err, test.code)
		}
	}
}

// TestLabelsAreThePlatforms: who reads one tenant sees its agents in one group, and no labels.
func TestLabelsAreThePlatforms(t *testing.T) {
	var fl *fleet.Fleet
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: everyone(t)}, func(cfg *rpc.Config) { fl = cfg.Fleet })
	root := registryv1.NewRegistryClient(g.dial(t, insecure.NewCredentials(), withToken(tokenOf("root"))))
	published, err := root.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Name: "route", Source: []byte("one"), Author: "ann", Settings: &scriptv1.Settings{}})
	if err != nil {
		t.Fatal(err)
	}
	revision := script.Revision(published.GetRelease().GetRevision())
	if err := fl.Reached(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	status, err := root.Status(t.Context(), &registryv1.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	fl.Heard(fleet.Report{
		Fleet: status.GetStatus().GetFleet(), Agent: "n1", Incarnation: "1", Sequence: 1, Activated: revision,
		Labels: map[string]string{"topology.kubernetes.io/zone": secret},
	})
	reader := registryv1.NewRegistryClient(g.dial(t, insecure.NewCredentials(), withToken(tokenOf("acme-read"))))
	for _, test := range []struct {
		client registryv1.RegistryClient
		by     string
	}{{root, secret}, {reader, ""}} {
		stream, err := test.client.WatchRollout(t.Context(), &registryv1.WatchRolloutRequest{Tenant: "acme", Name: "route", Agents: 1})
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.Recv()
		if err != nil || len(m.GetGroups()) != 1 || m.GetGroups()[0].GetValue() != test.by || m.GetGroups()[0].GetAgents() != 1 || m.GetAgents()[0].GetGroup() != test.by {
			t.Errorf("want by %q: %v, %v", test.by, m, err)
		}
	}
}
