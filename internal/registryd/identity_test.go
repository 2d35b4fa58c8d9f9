package registryd_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// boast is a status of an agent that claims a failure of everything.
func boast(fleet, agent string) *eventv1.Status {
	return &eventv1.Status{
		Fleet: fleet, Agent: agent, Incarnation: "forged", Sequence: 1 << 40, ActivatedRevision: 1 << 40,
		Failures: []*eventv1.Failure{{Key: "releases/acme/route", Revision: 1 << 40, Error: &scriptv1.Error{Kind: "SCRIPT", Message: "forged"}}},
	}
}

// ignored returns how many reports the registry ignored for the reason, as its metrics say.
func ignored(t *testing.T, metrics, reason string) (n int) {
	t.Helper()
	prefix := fmt.Sprintf("scriptorium_registry_agent_reports_ignored_total{reason=%q} ", reason)
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("the metrics have no reports that are ignored as %s", reason)
	return 0
}

// TestForgedStatus: whoever has the agents' password of NATS, and no session, changes nothing:
// a rollout goes on, and no agent is displaced.
func TestForgedStatus(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	d, c := start(t, cfg)
	crew.joins(t, c)
	fleet := found(t, cfg)
	c.publish(t, "route", "return 1")
	c.roll(t, "return 2", 300*time.Millisecond)
	crew.sawFirst(t, "live 1", "step 0: 0", "step 1: 2")

	stranger := newAgent(t, n.URL(), subjects(cfg))
	other, err := c.session(t.Context(), "z", "1", nil)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := c.session(t.Context(), "shop-agent", "1", []string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	genuine, err := crew.session(&eventv1.Status{Agent: "n3", Incarnation: "1"})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := proto.Marshal(&eventv1.Session{KeyId: "?", Agent: "n3", Incarnation: "1", Number: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []struct {
		reason string
		status *eventv1.Status
		in     seal.Session
	}{
		{"no_session", boast(fleet, "unknown"), seal.Session{}},
		{"no_session", boast(fleet, "n3"), seal.Session{}},
		{"unknown_session", boast(fleet, "n3"), seal.Session{Token: foreign, Key: make([]byte, 32)}},
		{"forged", boast(fleet, "n3"), seal.Session{Token: genuine.Token, Key: make([]byte, 32)}},                    // who listens sees tokens,
		{"other_session", boast(fleet, "n3"), other},                                                                 // and can have one of its own
		{"other_session", boast(fleet, "z"), other},                                                                  // in which it is another process,
		{"other_session", &eventv1.Status{Fleet: fleet, Agent: "shop-agent", Incarnation: "1", Sequence: 1}, narrow}, // or follows more
		{"malformed", &eventv1.Status{Fleet: fleet, Agent: "z", Incarnation: "1", Sequence: 2, Labels: map[string]string{"large": strings.Repeat("x", 5000)}}, other},
	} {
		_, before := admin(t, d, "/metrics")
		if err := stranger.sendIn(forged.status, forged.in); err != nil {
			t.Fatal(err)
		}
		was := ignored(t, before, forged.reason)
		eventually(t, "counted as "+forged.reason, func() bool {
			_, metrics := admin(t, d, "/metrics")
			return ignored(t, metrics, forged.reason) == was+1
		})
	}
	crew.sees(t, "live 1", "step 0: 0", "step 1: 2", "step 2: 5", "live 2")
	agents, err := c.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
	if err != nil || len(agents.GetAgents()) != 10 {
		t.Errorf("%v, %v: want the ten agents of the crew", agents, err)
	}
}

// TestImpossibleStatus: an agent that has a session cannot say what cannot be.
func TestImpossibleStatus(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	d, c := start(t, cfg)
	crew.joins(t, c)
	fleet := found(t, cfg)
	c.publish(t, "route", "return 1")
	five := 5.0
	if _, err := c.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Author: "ann", Name: "route", Source: []byte("return 2"),
		Settings: wire.FromSettings(script.Settings{Rollout: script.Plan{
			Steps: []script.Step{{Percent: 50, Pause: time.Hour}}, MaxErrorPercent: &five,
		}}),
	}); err != nil {
		t.Fatal(err)
	}
	crew.sees(t, "live 1", "step 0: 0", "step 1: 5")
	candidate := crew.last()
	liar := newAgent(t, n.URL(), subjects(cfg))
	liar.joins(t, c)
	status := func(agent string, calls, failed uint64) *eventv1.Status {
		return &eventv1.Status{
			Fleet: fleet, Agent: agent, Incarnation: "1", Sequence: 1 << 30, ActivatedRevision: int64(candidate.Revision),
			Trials: []*eventv1.Trial{{
				Key: "releases/acme/route", Version: candidate.Candidate.Version.Number, Attempt: candidate.Candidate.Attempt,
				Spec: candidate.Candidate.Version.Spec[:], Calls: calls, FailedCalls: failed,
			}},
		}
	}
	liar.report(t, status("liar-1", 1<<39, 0))
	liar.report(t, status("liar-2", 10, 20))
	liar.report(t, boastIn(status("liar-3", 0, 0)))
	eventually(t, "two have impossible calls", func() bool {
		_, metrics := admin(t, d, "/metrics")
		return ignored(t, metrics, "impossible") >= 2
	})
	crew.mu.Lock()
	first := "" // the registry may give up before it has heard a second agent
	crew.calls = func(agent string) (uint64, uint64) {
		if first = cmp.Or(first, agent); agent != first {
			return 0, 0
		}
		return 100, 100
	}
	crew.mu.Unlock()
	crew.sees(t, "live 1", "step 0: 0", "step 1: 5", "failed: 100 of 100 calls failed (100 %), at most 5 % may")
	status1, err := c.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	if failed := status1.GetStatus().GetScripts()[0].GetFailed(); failed != 0 {
		t.Errorf("%d agents failed; only one claims it, of a revision that there is not", failed)
	}
}

// boastIn adds to the status a failure of a revision that there is not.
func boastIn(m *eventv1.Status) *eventv1.Status {
	m.Failures = boast("", "").GetFailures()
	return m
}

// TestReplay: what an older process of an agent has said does not come back.
func TestReplay(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	d, c := start(t, cfg)
	a.joins(t, c)
	fleet := found(t, cfg)
	old := &eventv1.Status{Fleet: fleet, Agent: "n1", Incarnation: "1", Sequence: 1 << 30}
	first, err := a.session(old)
	if err != nil {
		t.Fatal(err)
	}
	release := c.publish(t, "route", "return 1").GetRelease()
	now := &eventv1.Status{Fleet: fleet, Agent: "n1", Incarnation: "2", Sequence: 1, ActivatedRevision: release.GetRevision()}
	a.report(t, now)
	converged := func() bool {
		status, err := c.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
		return err == nil && status.GetStatus().GetScripts()[0].GetConverged()
	}
	eventually(t, "converged", converged)
	if err := a.sendIn(old, first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old one is stale", func() bool {
		_, metrics := admin(t, d, "/metrics")
		return ignored(t, metrics, "stale") == 1
	})
	if !converged() {
		t.Error("the old process has displaced the new one")
	}
}

// TestStatusFlood: whatever agents say, etcd has a bounded part of it.
func TestStatusFlood(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	d, c := start(t, cfg)
	a.joins(t, c)
	leads(t, d)
	fleet := found(t, cfg)
	labels := func(size int) map[string]string {
		m := map[string]string{}
		for i := range 64 {
			m[fmt.Sprintf("label-%02d", i)] = strings.Repeat("x", size-8)
		}
		return m
	}
	const agents = 40
	for i := range agents {
		for _, size := range []int{1024, 64} {
			a.report(t, &eventv1.Status{
				Fleet: fleet, Agent: fmt.Sprint("n", i), Incarnation: "1", Sequence: uint64(2000 - size), Labels: labels(size),
			})
		}
	}
	for i := range 1000 { // of one agent, each with other keys
		a.report(t, &eventv1.Status{
			Fleet: fleet, Agent: "n0", Incarnation: "1", Sequence: uint64(5000 + i), DiskKeys: []string{fmt.Sprint("key-", i)},
		})
	}
	eventually(t, "all are heard", func() bool {
		_, metrics := admin(t, d, "/metrics")
		return strings.Contains(metrics, fmt.Sprintf(`scriptorium_registry_agents{state="connected"} %d`, agents)) &&
			ignored(t, metrics, "malformed") == agents && ignored(t, metrics, "too_often") > 700
	})
	eventually(t, "all are remembered", func() bool { return len(remembered(t, cfg.EtcdPrefix)) == agents })
	size, writes := 0, int64(0)
	for _, kv := range remembered(t, cfg.EtcdPrefix) {
		size, writes = size+len(kv.Key)+len(kv.Value), writes+kv.Version
	}
	if size > agents*6<<10 || writes > 2*agents {
		t.Errorf("etcd has %d bytes of %d agents, written %d times", size, agents, writes)
	}
}

// remembered returns what etcd has of agents.
func remembered(t *testing.T, prefix string) []*mvccpb.KeyValue {
	t.Helper()
	resp, err := etcdClient(t).Get(t.Context(), prefix+"/fleet/agents/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Kvs
}

// TestSessionsOutliveRegistries: a status is believed by a registry that was not asked for its
// session, and by one that was started since.
func TestSessionsOutliveRegistries(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	a := newAgent(t, n.URL(), subjects(cfg))
	first, c := start(t, cfg)
	a.joins(t, c)
	fleet := found(t, cfg)
	m := &eventv1.Status{Fleet: fleet, Agent: "n1", Incarnation: "1", Sequence: 1}
	a.report(t, m)
	cfg.Listen = []string{socket(dir(t)), "127.0.0.1:0"}
	second, _ := start(t, cfg)
	stop(t, first)
	eventually(t, "it is believed", func() bool {
		m.Sequence++
		a.report(t, m)
		_, metrics := admin(t, second, "/metrics")
		return strings.Contains(metrics, `scriptorium_registry_agents{state="connected"} 1`)
	})
}

// bearer shows a token with each call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

// TestNamesStayWithTheirIdentity: where the policy names no agents, whoever may read cannot
// displace an agent of another subject, and cannot have it forgotten.
func TestNamesStayWithTheirIdentity(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := "subjects:\n"
	for _, name := range []string{"agents", "reader"} {
		text += fmt.Sprintf("- {name: %s, tokens: ['sha256:%x'], grants: [{roles: [read], tenants: ['*']}]}\n", name, sha256.Sum256([]byte(name+" with a long token")))
	}
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Security.AccessPolicy, cfg.Security.InsecureAnonymous = policy, false
	d, _ := start(t, cfg)
	a, b := newAgent(t, n.URL(), subjects(cfg)), newAgent(t, n.URL(), subjects(cfg))
	agents := dial(t, cfg.Listen[0], grpc.WithPerRPCCredentials(bearer("agents with a long token")))
	a.joins(t, agents)
	b.joins(t, dial(t, cfg.Listen[0], grpc.WithPerRPCCredentials(bearer("reader with a long token"))))
	status := &eventv1.Status{Fleet: found(t, cfg), Agent: "n1", Incarnation: "1", Sequence: 1, Software: "true"}
	a.report(t, status)
	is := func() string {
		list, err := agents.ListAgents(t.Context(), &registryv1.ListAgentsRequest{})
		if err != nil || len(list.GetAgents()) != 1 {
			return fmt.Sprint(list, err)
		}
		return list.GetAgents()[0].GetSoftware()
	}
	eventually(t, "it is heard", func() bool { return is() == "true" })
	for i, lie := range []*eventv1.Status{
		{Incarnation: "1", Sequence: 1 << 63}, {Incarnation: "2", Sequence: 1}, {Incarnation: "1", Sequence: 1 << 63, Leaving: true},
	} {
		lie.Fleet, lie.Agent, lie.Software = status.GetFleet(), "n1", "false"
		b.report(t, lie)
		eventually(t, "it is ignored", func() bool {
			_, metrics := admin(t, d, "/metrics")
			return ignored(t, metrics, "other_identity") == i+1
		})
	}
	status.Sequence, status.Software = 2, "still true"
	a.report(t, status)
	eventually(t, "the agent is still heard", func() bool { return is() == "still true" })
}

// TestSessionsOutliveASigningKey: a registry that has the former signing key too believes agents
// as before. One that has not believes them once they have pulled again.
func TestSessionsOutliveASigningKey(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	cfg.Security.InsecureUnsigned, cfg.Security.SigningKey = false, signingKey(t)
	former, err := os.ReadFile(cfg.Security.SigningKey)
	if err != nil {
		t.Fatal(err)
	}
	first, c := start(t, cfg)
	connected := func(d *registryd.Daemon) bool {
		_, metrics := admin(t, d, "/metrics")
		return strings.Contains(metrics, `scriptorium_registry_agents{state="connected"} 1`)
	}
	m := &eventv1.Status{Fleet: found(t, cfg), Agent: "n1", Incarnation: "1"}
	in, err := c.session(t.Context(), "n1", "1", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent(t, n.URL(), subjects(cfg))
	report := func() {
		m.Sequence++
		if err := a.sendIn(m, in); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Security.SigningKey = signingKey(t)
	newer, err := os.ReadFile(cfg.Security.SigningKey)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listen = []string{socket(dir(t))}
	second, c := start(t, cfg)
	both := cfg
	both.Listen = []string{socket(dir(t))}
	both.Security.SigningKey = filepath.Join(t.TempDir(), "both.key")
	if err := os.WriteFile(both.Security.SigningKey, append(newer, former...), 0o600); err != nil {
		t.Fatal(err)
	}
	third, _ := start(t, both)
	stop(t, first)
	eventually(t, "who has both keys believes it", func() bool {
		report()
		return connected(third)
	})
	eventually(t, "who has the new key alone ignores it", func() bool {
		_, metrics := admin(t, second, "/metrics")
		return ignored(t, metrics, "unknown_session") > 0
	})
	if connected(second) {
		t.Error("a session of another signing key is believed")
	}
	if in, err = c.session(t.Context(), "n1", "1", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all believe the next session", func() bool {
		report()
		return connected(second) && connected(third)
	})
}

// TestAgentsHaveTheirNames: an agent can have a name that the access policy gives it, and no
// other.
func TestAgentsHaveTheirNames(t *testing.T) {
	cfg := config(t, startNATS(t, 0).URL())
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	text := fmt.Sprintf("subjects: [{name: edge, uids: [%d], agents: [edge-*], grants: [{roles: [read], tenants: [acme]}]}]", os.Getuid())
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Security.AccessPolicy, cfg.Security.InsecureAnonymous = policy, false
	_, c := start(t, cfg)
	if in, err := c.session(t.Context(), "edge-1", "1", []string{"acme"}); err != nil || len(in.Key) == 0 {
		t.Errorf("its own name: %v", err)
	}
	_, err := c.session(t.Context(), "core-1", "1", []string{"acme"})
	if script.KindOf(wire.FromStatus(err)) != script.Denied || !strings.Contains(err.Error(), `edge cannot be the agent "core-1"`) {
		t.Errorf("another's name: %v", err)
	}
	if _, err := c.session(t.Context(), "edge-1", "1", nil); script.KindOf(wire.FromStatus(err)) != script.Denied {
		t.Errorf("all tenants: %v", err)
	}
}
