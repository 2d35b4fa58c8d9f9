package fleet_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (b *bench) commitValue(key string, revision script.Revision) {
	b.Apply(registry.Transaction{Revision: revision, Values: []script.Value{{
		Key: script.ValueKey{Tenant: route.Tenant, Key: key}, Revision: revision, Digest: script.DigestOf([]byte(key)), ChangedAt: b.now,
	}}})
}

// TestReleasesDoNotWaitForValues: a release converges whatever became of the values
// around it, and agents that lack values are known to be behind.
func TestReleasesDoNotWaitForValues(t *testing.T) {
	b := newBench(t)
	for _, agent := range []string{"a", "b"} {
		b.hear(agent, 10)
	}
	b.commitValue("flag", 11)
	b.commit(route, 12)
	b.commitValue("flag", 13)
	b.commitValue("other", 14)
	b.Apply(registry.Transaction{Revision: 15, Tenants: []script.Tenant{{Name: "acme", Revision: 15, ChangedAt: b.now}}})
	b.pass(time.Second)
	b.want("0/0/0 of 2", false, "a")
	if got := b.agents(); got[0].Behind != 4 || got[0].Lag != time.Second {
		t.Errorf("behind %d by %v; want a release, two values and the settings", got[0].Behind, got[0].Lag)
	}
	r := b.report("a", 15)
	r.Failures = []fleet.Failure{
		{Name: script.Name{Tenant: "acme", Script: "kv:flag"}, Revision: 13, Err: &script.Error{Kind: script.Unavailable, Message: "no source"}},
		{Name: script.Name{Tenant: "acme", Script: "tenant:settings"}, Revision: 15, Err: &script.Error{Kind: script.Internal, Message: "no worker"}},
	}
	b.Heard(r)
	b.hear("b", 12)
	b.want("2/0/0 of 2", true, "a")
	got := b.Agents(fleet.AgentFilter{Troubled: true}).Agents
	if len(got) != 2 || got[0].Behind != 0 || got[0].Failed != 2 || got[0].Failures[0].Name.String() != "acme/kv:flag" || got[1].Behind != 3 {
		t.Errorf("agents: %+v", got)
	}
	b.hear("a", 15)
	b.hear("b", 15)
	if got := b.Agents(fleet.AgentFilter{Troubled: true}).Agents; len(got) != 0 {
		t.Errorf("nobody is in trouble: %+v", got)
	}
	if s := b.Status(fleet.Filter{}); len(s.Scripts) != 1 || s.Head != 15 {
		t.Errorf("status: %+v", s)
	}
	b.pass(25 * time.Hour)
	b.commitValue("late", 16)
	b.hear("a", 15)
	b.Sweep()
	b.hear("c", 11)
	for _, a := range b.agents() {
		if a.Name == "c" && a.Behind != 2 { // the release and the late value: the others are long past
			t.Errorf("c is behind by %d, want 2", a.Behind)
		}
	}
}

func TestFailureName(t *testing.T) {
	for key, want := range map[string]string{
		"releases/acme/route": "acme/route", "values/acme/a/b.c": "acme/kv:a/b.c", "tenants/acme": "acme/tenant:settings",
		"releases/acme": "refused", "releases/acme/kv:x": "refused", "values/acme": "refused", "values/acme/a b": "refused", "tenants/a b": "refused", "tenants/": "refused",
		"policies/acme/x": "unknown", "": "unknown",
	} {
		name, ok, err := fleet.FailureName(key)
		got := name.String()
		switch {
		case !ok:
			got = "unknown"
		case err != nil:
			got = "refused"
		}
		if got != want {
			t.Errorf("%q: %s, %v; want %s", key, got, err, want)
		}
		if ok && err == nil {
			if again, err := fleet.ParseFailureName(got); err != nil || again != name {
				t.Errorf("%s: read as %v, %v", got, again, err)
			}
		}
	}
}
