package local_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// spoil puts garbage in place of the record of the object, as somebody does with etcdctl, and
// returns what takes what was there before from etcd's memory.
func (s *stack) spoil(key, record string) (forget func()) {
	s.t.Helper()
	c := etcdtest.Client(s.t, s.EtcdEndpoint())
	put, err := c.Put(s.t.Context(), etcdstore.DefaultPrefix+key, record)
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		if _, err := c.Compact(s.t.Context(), put.Header.Revision); err != nil {
			s.t.Fatal(err)
		}
	}
}

// restartRegistry starts the registry anew: it knows what etcd knows.
func (s *stack) restartRegistry() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.StopRegistry(ctx); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartRegistry(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// unreadable waits until the registry names the records that it cannot read.
func (s *stack) unreadable(want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var got []string
	if !eventually(ctx, func() bool {
		status, err := s.registry.Status(ctx, script.Name{})
		got = nil
		for _, u := range status.Unreadable {
			got = append(got, u.Key)
		}
		return err == nil && slices.Equal(got, want)
	}) {
		s.t.Fatalf("the registry cannot read %v, want %v", got, want)
	}
}

// noDrift waits until agents have compared what they have with the registry: another script
// has come to them by the feed, and then by a full snapshot. None may have found a drift.
func (s *stack) noDrift(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	other := script.Name{Tenant: "shop", Script: "other"}
	p, err := s.registry.Publish(ctx, registryclient.PublishRequest{Name: other, Source: edition(n), Write: registryclient.Write{Author: "test"}})
	if err != nil {
		s.t.Fatal(err)
	}
	for fleet, err := range s.registry.WatchStatus(ctx, other) {
		if err != nil {
			s.t.Fatalf("another script does not converge: %v", err)
		}
		if one := fleet.Scripts; len(one) == 1 && one[0].Release.Revision >= p.Release.Revision && one[0].Converged {
			break
		}
	}
	for a, err := range s.registry.Agents(ctx, false) {
		if err != nil {
			s.t.Fatal(err)
		}
		if a.Drifts != 0 {
			s.t.Errorf("%s has found %d drifts", a.Name, a.Drifts)
		}
	}
}

// join starts an agent that has nothing, and returns a client of it.
func (s *stack) join(i int) *agentclient.Client {
	s.t.Helper()
	if err := s.StartAgent(i); err != nil {
		s.t.Fatal(err)
	}
	client, err := agentclient.New("unix:" + filepath.Join(s.AgentDir(i), "grpc.sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestAnUnreadableRecordChangesNothing: whatever somebody puts in place of a record in etcd,
// agents keep what is live, also when they or the registry restart, and all else goes on.
func TestAnUnreadableRecordChangesNothing(t *testing.T) {
	for _, record := range []string{"\xff\xff\xff", ""} {
		t.Run(fmt.Sprintf("%q", record), func(t *testing.T) { testUnreadable(t, record) })
	}
}

func testUnreadable(t *testing.T, record string) {
	t.Helper()
	s := start(t)
	ctx := t.Context()
	data := registryclient.DataWrite{Author: "test"}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &script.TenantSettings{Concurrency: 7}, data); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.registry.PutValue(ctx, script.ValueKey{Tenant: name.Tenant, Key: "flag"}, []byte("on"), data); err != nil {
		t.Fatal(err)
	}
	s.converge(s.publish(1).Release.Revision)
	script1 := "releases/" + name.String()
	s.spoil(script1, record)
	s.spoil("values/"+name.Tenant+"/flag", record)
	forget := s.spoil("tenants/"+name.Tenant, record)
	named := []string{script1, "tenants/" + name.Tenant, "values/" + name.Tenant + "/flag"}
	s.unreadable(named...)
	s.noDrift(1)
	s.answers(answer(1))

	// One that joins gets what was there before, of this registry and of one that restarts.
	for i, restart := range []bool{false, true} {
		if restart {
			s.restartRegistry()
			s.unreadable(named...)
		}
		s.agents = append(s.agents, s.join(agents+1+i))
		s.awaitAnswer(agents+i, answer(1))
		s.noDrift(2 + i)
	}

	// Once nobody remembers, those that have it keep it, also if they ask for everything.
	forget()
	s.restartRegistry()
	s.unreadable(named...)
	stop, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.StopAgent(stop, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.AgentDir(1), "state", "cursor")); err != nil {
		t.Fatal(err)
	}
	if err := s.StartAgent(1); err != nil {
		t.Fatal(err)
	}
	s.awaitAnswer(0, answer(1))
	late := s.join(agents + 3)
	s.noDrift(4)
	s.answers(answer(1))
	if _, err := late.Call(ctx, name.String()); script.KindOf(err) != script.NotFound {
		t.Errorf("an agent that never had it: %v", err)
	}

	// The settings come first: nobody can tell what the tenant's scripts may have.
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &script.TenantSettings{Concurrency: 8}, data); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.registry.PutValue(ctx, script.ValueKey{Tenant: name.Tenant, Key: "flag"}, []byte("off"), data); err != nil {
		t.Fatal(err)
	}
	if _, err := s.registry.Publish(ctx, registryclient.PublishRequest{
		Name: name, Source: edition(2), Write: registryclient.Write{Author: "test", Force: true},
	}); err != nil {
		t.Fatal(err)
	}
	s.unreadable()
	s.agents = append(s.agents, late)
	for i := range s.agents {
		s.awaitAnswer(i, answer(2))
	}
	s.noDrift(5)
}

// doctor returns what is damaged, by its key.
func (s *stack) doctor(o registryclient.DoctorOptions) map[string]registryclient.Finding {
	s.t.Helper()
	found := map[string]registryclient.Finding{}
	for f, err := range s.registry.Doctor(s.t.Context(), o) {
		if err != nil {
			s.t.Fatal(err)
		}
		found[f.Key] = f
	}
	return found
}

var repairs = registryclient.DoctorOptions{Repair: true, Author: "test", Note: "repaired"}

// TestDoctor: it lists what is damaged, restores what etcd remembers as it was, and makes what
// etcd has forgotten of what is left.
func TestDoctor(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	data := registryclient.DataWrite{Author: "test"}
	if _, _, err := s.registry.SetTenant(ctx, name.Tenant, &script.TenantSettings{Concurrency: 7}, data); err != nil {
		t.Fatal(err)
	}
	flag := script.ValueKey{Tenant: name.Tenant, Key: "flag"}
	if _, _, err := s.registry.PutValue(ctx, flag, []byte("on"), data); err != nil {
		t.Fatal(err)
	}
	s.publish(1)
	before := s.publish(2).Release
	s.converge(before.Revision)
	if found := s.doctor(registryclient.DoctorOptions{}); len(found) != 0 {
		t.Errorf("nothing is damaged, and it finds %+v", found)
	}
	release := "releases/" + name.String()
	versions := "versions/" + name.String() + "/"
	first, second := script.DigestOf(edition(1)), script.DigestOf(edition(2))
	s.spoil(release, "garbage")
	s.spoil("values/"+flag.String(), "")
	s.spoil("tenants/"+name.Tenant, "garbage")
	s.spoil(fmt.Sprintf("%s%020d", versions, 1), "garbage")
	s.spoil(fmt.Sprintf("blobs/%x", second[:]), "garbage")
	want := []string{release, "sources/" + second.String(), "tenants/" + name.Tenant, "values/" + flag.String(), versions + "1"}
	slices.Sort(want)
	found := s.doctor(repairs)
	if keys := slices.Sorted(maps.Keys(found)); !slices.Equal(keys, want) {
		t.Fatalf("it finds %+v, want %v", found, want)
	}
	for key, f := range found {
		if !f.Repairable || !f.Repaired || f.Reason == "" || f.Remedy == "" {
			t.Errorf("%s: %+v", key, f)
		}
	}
	if found := s.doctor(repairs); len(found) != 0 {
		t.Errorf("after the repair it finds %+v", found)
	}
	s.unreadable()
	now, err := s.registry.Get(ctx, name)
	if err != nil || now.Active.Number != 2 || now.Settings.Limits != before.Settings.Limits || len(now.Retained) != 2 || now.Revision <= before.Revision {
		t.Errorf("the script after the repair: %+v, %v; before %+v", now, err, before)
	}
	version, err := s.registry.Source(ctx, script.Ref{Name: name, Version: 1})
	if err != nil || version.Author != "test" || script.DigestOf(version.Source) != first {
		t.Errorf("its first version: %+v, %v", version, err)
	}
	if value, content, err := s.registry.Value(ctx, flag); err != nil || string(content) != "on" {
		t.Errorf("the value: %+v %q, %v", value, content, err)
	}
	if tenant, err := s.registry.Tenant(ctx, name.Tenant); err != nil || tenant.Settings.Concurrency != 7 {
		t.Errorf("the settings: %+v, %v", tenant, err)
	}
	s.converge(now.Revision)
	s.answers(answer(2))

	// What etcd has forgotten.
	s.spoil("values/"+flag.String(), "garbage")
	s.spoil(release, "garbage")()
	found = s.doctor(repairs)
	if f := found[release]; len(found) != 2 || !f.Repaired || found["values/"+flag.String()].Repairable {
		t.Errorf("it finds %+v", found)
	}
	now, err = s.registry.Get(ctx, name)
	if err != nil || now.Active.Number != 2 || now.Latest != 2 || len(now.Retained) != 2 || !now.Enabled {
		t.Errorf("the script made of what is left: %+v, %v", now, err)
	}
	s.answers(answer(2))
	if _, err := s.registry.DeleteValue(ctx, flag, data); err != nil {
		t.Fatal(err)
	}
	s.unreadable()
	s.noDrift(1)
}
