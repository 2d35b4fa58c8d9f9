package registryd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
)

// events returns all events of the types, oldest first.
func (c *client) events(t *testing.T, types ...string) (all []*scriptv1.Event) {
	t.Helper()
	page, err := c.ListEvents(t.Context(), &registryv1.ListEventsRequest{PageSize: 1000, Types: types})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(page.GetEvents())
	return page.GetEvents()
}

// happens waits for an event of the type, and returns it.
func (c *client) happens(t *testing.T, of, what string, has ...string) *scriptv1.Event {
	t.Helper()
	var found *scriptv1.Event
	eventually(t, fmt.Sprintf("%s %s %q", of, what, has), func() bool {
		for _, e := range c.events(t, of) {
			text := e.GetTenant() + " " + strings.Join(e.GetSubjects(), " ") + " " + e.GetText()
			if e.GetEvent() == what && !slices.ContainsFunc(has, func(word string) bool { return !strings.Contains(text, word) }) {
				found = e
			}
		}
		return found != nil
	})
	return found
}

// TestEventsOfReplicas: each replica tells of its own refusals, one of them of the fleet; a watch goes on at any
// of them where it was, also after the leader has stopped.
func TestEventsOfReplicas(t *testing.T) {
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	d1, one := start(t, cfg)
	leads(t, d1)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	d2, two := start(t, other)

	a := newAgent(t, n.URL(), subjects(cfg))
	a.joins(t, one)
	status := &eventv1.Status{Fleet: found(t, cfg), Agent: "edge-1", Incarnation: "1", Sequence: 1}
	a.report(t, status)
	two.happens(t, "agent", "joined", "edge-1")
	status.Sequence, status.Drifts = 2, 1
	a.report(t, status)
	two.happens(t, "drift", "found", "edge-1")
	status.Sequence, status.RepairedDrifts = 3, 1
	a.report(t, status)
	two.happens(t, "drift", "repaired", "edge-1")
	if got := len(one.events(t, "agent", "drift")); got != 3 {
		t.Errorf("%d events of the agent, want 3: %v", got, one.events(t, "agent", "drift"))
	}

	one.publish(t, "first", "one")
	if _, err := one.SetTenant(t.Context(), &registryv1.SetTenantRequest{Tenant: "acme", Author: "ann", Settings: &scriptv1.TenantSettings{Scripts: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{one, two} {
		eventually(t, "the quota holds", func() bool {
			_, err := c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "second", Source: []byte("x"), DryRun: true})
			return err != nil
		})
	}
	if got := one.events(t, "quota"); len(got) != 0 {
		t.Errorf("a dry run is no refused write: %v", got)
	}
	if _, err := two.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "second", Source: []byte("x")}); err == nil {
		t.Fatal("the quota does not hold")
	}
	if e := one.happens(t, "quota", "refused", "acme", "scripts: 1 of 1"); e.GetCount() > 1 {
		t.Errorf("%v", e)
	}

	list, err := one.ListEvents(t.Context(), &registryv1.ListEventsRequest{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, d1)
	leads(t, d2)
	want := two.publish(t, "first", "two").GetRelease().GetRevision()
	watch, err := two.WatchEvents(t.Context(), &registryv1.WatchEventsRequest{Tenant: "acme", Token: list.GetWatchToken()})
	if err != nil {
		t.Fatal(err)
	}
	for got := int64(0); got != want; {
		resp, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEvents() {
			if got = e.GetRevision(); got != want {
				t.Errorf("the watch on another replica has %v", e)
			}
		}
	}
	_, metrics := admin(t, d2, "/metrics")
	for _, line := range []string{
		`scriptorium_registry_timeline_notes_total{type="quota"} 2`,   // refused, and nearly
		`scriptorium_registry_timeline_records_total{type="drift"} 0`, // of the other replica
		`scriptorium_registry_timeline_dropped_total{reason="merged",type="agent"} 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// TestEventsOfKeys: another signing key, and other keys of publishers, are on record once, whoever leads.
func TestEventsOfKeys(t *testing.T) {
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Security.InsecureUnsigned, cfg.Security.SigningKey = false, signingKey(t)
	cfg.Security.TenantKeys = filepath.Join(t.TempDir(), "tenant-keys.yaml")
	keys := func(tenant string) {
		t.Helper()
		text := fmt.Sprintf("publishers: [{tenants: [%s], keys: [%q]}]\n", tenant, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFKJpa0stYZ2ThSF2mIrmqQqTw7D5GRcZSYHEyvYtqEl")
		if err := os.WriteFile(cfg.Security.TenantKeys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys("acme")
	d, c := start(t, cfg)
	c.happens(t, "key", "signing", "none was on record")
	c.happens(t, "key", "publishers", "acme: SHA256:", "none was on record")
	keys("shop")
	c.happens(t, "key", "publishers", "acme: none, before SHA256:", "shop: SHA256:")
	stop(t, d)

	restarted := cfg
	restarted.Listen = []string{socket(dir(t))}
	d, c = start(t, restarted)
	leads(t, d)
	stop(t, d)
	next := cfg
	next.Security.SigningKey = signingKey(t)
	next.Listen = []string{socket(dir(t))}
	_, c = start(t, next)
	c.happens(t, "key", "signing", "before ")
	if got := c.events(t, "key"); len(got) != 4 {
		t.Errorf("%d events of keys, want 4: %v", len(got), got)
	}
}

// TestEventsWithoutNATS: nobody hears agents, and the timeline says so.
func TestEventsWithoutNATS(t *testing.T) {
	n := startNATS(t, 0)
	d, c := start(t, config(t, n.URL()))
	leads(t, d)
	n.Stop()
	c.happens(t, "agent", "unheard", "NATS")
}

// TestTheLastEventsAreStored when a registry stops.
func TestTheLastEventsAreStored(t *testing.T) {
	cfg := config(t, startNATS(t, 0).URL())
	d, c := start(t, cfg)
	if _, err := c.SetTenant(t.Context(), &registryv1.SetTenantRequest{Tenant: "acme", Author: "ann", Settings: &scriptv1.TenantSettings{ValueBytes: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutValue(t.Context(), &registryv1.PutValueRequest{Tenant: "acme", Author: "ann", Key: "k", Content: []byte("xx")}); err == nil {
		t.Fatal("the quota does not hold")
	}
	stop(t, d)
	again := cfg
	again.Listen = []string{socket(dir(t))}
	_, c = start(t, again)
	if got := c.events(t, "quota"); len(got) != 1 || got[0].GetEvent() != "refused" {
		t.Errorf("%v", got)
	}
}
