package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// bounded is a registry that knows what tenants have, with settings of the tenant acme.
func bounded(t *testing.T, settings script.TenantSettings) *remembering {
	t.Helper()
	r, _ := newRemembering(t)
	if _, _, err := r.SetTenant(t.Context(), registry.SetTenant{Tenant: "acme", Settings: &settings, Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	r.catchUp()
	return r
}

// put publishes a source of that size as a script of the tenant.
func (r *remembering) put(tenant, name string, size int, history int) error {
	r.t.Helper()
	_, err := r.Publish(r.t.Context(), registry.PublishRequest{
		Write:    registry.Write{Name: script.Name{Tenant: tenant, Script: name}, Author: "ann", By: everybody},
		Source:   []byte(strings.Repeat("x", size)),
		Settings: &script.Settings{HistoryLimit: history},
	})
	r.catchUp()
	return err
}

func TestQuotaOfScripts(t *testing.T) {
	r := bounded(t, script.TenantSettings{Scripts: 3}) // one is there
	for _, name := range []string{"a", "b"} {
		if err := r.put("acme", name, 10, 0); err != nil {
			t.Fatal(err)
		}
	}
	if e := script.AsError(r.put("acme", "c", 10, 0)); e == nil || e.Kind != script.Limit || e.Field != "name" || !strings.HasSuffix(e.Message, ": scriptctl tenant set acme --scripts NUMBER") {
		t.Errorf("a fourth script: %v", e)
	}
	if err := r.put("acme", "b", 20, 0); err != nil {
		t.Errorf("a version of a script that is there: %v", err)
	}
	if err := r.put("other", "c", 10, 0); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	_, err := r.Delete(t.Context(), registry.DeleteRequest{Write: registry.Write{Name: script.Name{Tenant: "acme", Script: "a"}, Author: "ann", By: everybody}})
	if err != nil {
		t.Fatal(err)
	}
	r.catchUp()
	if err := r.put("acme", "c", 10, 0); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

func TestQuotaOfSources(t *testing.T) {
	r := bounded(t, script.TenantSettings{SourceBytes: 1000})
	for size := 300; size < 303; size++ {
		if err := r.put("acme", "a", size, 10); err != nil {
			t.Fatal(err)
		}
	}
	if e := script.AsError(r.put("acme", "a", 304, 10)); e == nil || e.Kind != script.Limit || e.Field != "source" || !strings.Contains(e.Message, "of 1000 bytes") || !strings.HasSuffix(e.Message, ": scriptctl tenant set acme --sources SIZE") {
		t.Errorf("a fourth version: %v", e)
	}
	if err := r.put("acme", "a", 305, 2); err != nil {
		t.Errorf("a version that makes room: %v", err)
	}
	if err := r.put("acme", "b", 380, 0); err != nil {
		t.Errorf("what fits then: %v", err)
	}
}

// TestRatesOfWrites: a tenant writes at once what its rates allow in a while, then at its
// rates; others do not notice.
func TestRatesOfWrites(t *testing.T) {
	for _, tt := range []struct {
		settings script.TenantSettings
		size     int
		atOnce   int
		aSecond  int
		field    string
	}{
		{script.TenantSettings{Writes: 2}, 10, 200, 2, "writes"},
		{script.TenantSettings{WriteBytes: 10_000}, 8_000, 127, 1, "writeBytes"},
	} {
		t.Run(tt.field, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bounded(t, tt.settings)
				publish := func() (done int, err error) {
					for i := range 1000 {
						if err := r.put("acme", fmt.Sprint("s-", i%20), tt.size+i+1, 1); err != nil {
							return done, err
						}
						done++
					}
					return done, nil
				}
				done, err := publish()
				if e := script.AsError(err); e == nil || e.Kind != script.Overloaded || e.Field != tt.field || !strings.Contains(e.Message, ": scriptctl tenant set acme --write") {
					t.Fatalf("after %d writes: %v", done, err)
				}
				if done < tt.atOnce-3 || done > tt.atOnce+3 {
					t.Errorf("%d writes at once, want %d", done, tt.atOnce)
				}
				if err := r.put("other", "a", 10, 1); err != nil {
					t.Errorf("another tenant: %v", err)
				}
				<-time.After(10 * time.Second)
				done, _ = publish()
				if most := tt.aSecond * 10; done < most/2 || done > most+2 {
					t.Errorf("%d writes after ten seconds, want %d", done, most)
				}
			})
		})
	}
}

// TestBytesOfConfigs: what a version runs with counts as its source does.
func TestBytesOfConfigs(t *testing.T) {
	r := bounded(t, script.TenantSettings{WriteBytes: 10_000, SourceBytes: 500_000})
	publish := func(tenant string, i int) error {
		config := fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("x", 60_000))
		_, err := r.Publish(t.Context(), registry.PublishRequest{
			Write:  registry.Write{Name: script.Name{Tenant: tenant, Script: "a"}, Author: "ann", By: everybody},
			Source: []byte("x"), Settings: &script.Settings{Spec: script.Spec{Config: []byte(config)}, HistoryLimit: i%9 + 1},
		})
		r.catchUp()
		return err
	}
	done := 0
	var err error
	for ; done < 100 && err == nil; done++ {
		err = publish("acme", done)
	}
	if e := script.AsError(err); e == nil || e.Kind != script.Limit || e.Field != "source" || done != 9 {
		t.Errorf("the quota: after %d writes: %v", done, err)
	}
	r = bounded(t, script.TenantSettings{WriteBytes: 10_000})
	for done, err = 0, nil; done < 100 && err == nil; done++ {
		err = publish("acme", done)
	}
	if e := script.AsError(err); e == nil || e.Kind != script.Overloaded || e.Field != "writeBytes" || done > 22 {
		t.Errorf("the rate: after %d writes: %v", done, err)
	}
}

// TestNoSpace: while the store is full, nothing is stored that takes room.
func TestNoSpace(t *testing.T) {
	full := script.Errorf(script.Limit, "", "etcd is full")
	var space error
	b := newBench(t)
	b.Registry = registry.New(registry.Config{
		Store: b.store, Engines: map[string]engine.Checker{"lua": b.checker}, Space: func() error { return space },
	})
	b.publish("first")
	b.publish("second")
	space = full
	write := registry.Write{Name: route, Author: "ann", By: everybody}
	_, err := b.Publish(t.Context(), registry.PublishRequest{Write: write, Source: []byte("third")})
	if script.KindOf(err) != script.Limit {
		t.Errorf("publish: %v", err)
	}
	key := script.ValueKey{Tenant: "acme", Key: "k"}
	if _, _, err := b.PutValue(t.Context(), registry.PutValue{Key: key, Content: []byte("x"), Author: "ann", By: everybody}); script.KindOf(err) != script.Limit {
		t.Errorf("put a value: %v", err)
	}
	if _, err := b.Rollback(t.Context(), registry.RollbackRequest{Write: write, Version: 1}); err != nil {
		t.Errorf("roll back: %v", err)
	}
	if _, err := b.Delete(t.Context(), registry.DeleteRequest{Write: write}); err != nil {
		t.Errorf("delete: %v", err)
	}
}
