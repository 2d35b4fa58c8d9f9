package registryclient_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Status answers in pages of two.
func (f *fakeRegistry) Status(_ context.Context, m *registryv1.StatusRequest) (*registryv1.StatusResponse, error) {
	start, _ := strconv.Atoi(m.GetPageToken())
	end := min(start+2, len(f.releases))
	resp := &registryv1.StatusResponse{Status: &registryv1.FleetStatus{Fleet: "F1", HeadRevision: int64(f.revision), Connected: 3, Unknown: 1}}
	for _, r := range f.releases[start:end] {
		resp.Status.Scripts = append(resp.Status.Scripts, &registryv1.ScriptStatus{
			Release: wire.FromRelease(*r), Desired: 4, Active: 3, Unknown: 1, Converged: true,
			Trials:  &registryv1.Trials{Passed: 1, Failed: 2, Running: 3, Calls: 4, FailedCalls: 5, Waiting: 6, WaitingFor: []string{"n1", "n2"}, WaitingWhy: "busy"},
			Rollout: wire.FromRollout(script.Rollout{Revision: r.Revision, Agents: 3, Median: time.Millisecond, SlowestAgent: "n3"}),
		})
	}
	if end < len(f.releases) {
		resp.NextPageToken = strconv.Itoa(end)
	}
	return resp, nil
}

// ListAgents answers in pages of two.
func (f *fakeRegistry) ListAgents(_ context.Context, m *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	const agents = 5
	start, _ := strconv.Atoi(m.GetPageToken())
	resp := &registryv1.ListAgentsResponse{}
	for i := start; i < agents; i++ {
		if len(resp.Agents) == 2 {
			resp.NextPageToken = strconv.Itoa(i)
			break
		}
		a := &registryv1.AgentStatus{
			Agent: fmt.Sprint("n", i), Tenants: []string{"acme", "shop-*"}, DiskKeys: []string{"k"}, Drifts: 2, Behind: 3, Lag: durationpb.New(time.Second), Failed: 1,
			Failures: []*registryv1.ScriptFailure{{
				Tenant: "acme", Name: "route", Revision: 7, Error: wire.FromError(&script.Error{Kind: script.Script, Message: "boom", Line: 3}),
			}},
		}
		if m.GetTroubled() && i != 1 {
			continue
		}
		if m.GetPageToken() == "4" {
			a.Tenants = []string{"NO GLOB"}
		}
		resp.Agents = append(resp.Agents, a)
	}
	return resp, nil
}

// TestStatusOfManyScripts: what comes in pages is one status.
func TestStatusOfManyScripts(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	for i := range 5 {
		publish(t, c, script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, "return 1")
	}
	status, err := c.Status(t.Context(), script.Name{})
	if err != nil || len(status.Scripts) != 5 || status.Connected != 3 || status.Unknown != 1 || status.Fleet != "F1" || status.Head != 5 {
		t.Fatalf("%+v, %v", status, err)
	}
	for i, s := range status.Scripts {
		if s.Release.Name.Script != fmt.Sprint("s", i) || s.Rollout == nil || s.Rollout.Median != time.Millisecond || s.Rollout.SlowestAgent != "n3" {
			t.Errorf("script %d: %+v", i, s)
		}
		want := &registryclient.Trials{Passed: 1, Failed: 2, Running: 3, Calls: 4, FailedCalls: 5, Waiting: 6, WaitingFor: []string{"n1", "n2"}, WaitingWhy: "busy"}
		if !reflect.DeepEqual(s.Trials, want) {
			t.Errorf("trials of script %d: %+v", i, s.Trials)
		}
	}
}

func TestAgents(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	var names []string
	var last error
	for agent, err := range c.Agents(t.Context(), false) {
		if last = err; err != nil {
			break
		}
		names = append(names, agent.Name)
		if agent.Tenants.String() != "acme,shop-*" || agent.Drifts != 2 || agent.Behind != 3 || agent.Lag != time.Second || agent.Failed != 1 ||
			!slices.Equal(agent.DiskKeys, []string{"k"}) || agent.Failures[0].Name != route || agent.Failures[0].Err.Line != 3 {
			t.Errorf("agent: %+v", agent)
		}
	}
	if !slices.Equal(names, []string{"n0", "n1", "n2", "n3"}) || script.KindOf(last) != script.Internal {
		t.Errorf("agents: %v, %v; want four, and an error for what cannot be read", names, last)
	}
	names = nil
	for agent, err := range c.Agents(t.Context(), true) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, agent.Name)
	}
	if !slices.Equal(names, []string{"n1"}) {
		t.Errorf("troubled: %v", names)
	}
}
