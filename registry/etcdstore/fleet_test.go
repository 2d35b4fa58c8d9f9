package etcdstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/script"
)

// identities are the reads that say which fleet the store has.
func identities(s *etcdstore.Store) map[string]func(context.Context) (string, error) {
	return map[string]func(context.Context) (string, error){
		"Fleet": s.Fleet,
		"Snapshot": func(ctx context.Context) (string, error) {
			snapshot, err := s.Snapshot(ctx)
			return snapshot.Fleet, err
		},
	}
}

// wantRefused checks that no read takes what etcd has for the fleet.
func wantRefused(t *testing.T, s *etcdstore.Store, says ...string) {
	t.Helper()
	for what, read := range identities(s) {
		got, err := read(t.Context())
		if got != "" || !errors.Is(err, registry.ErrNoFleet) || script.KindOf(err) != script.Unavailable || s.Refusal() == nil {
			t.Errorf("%s: %q, %v, refusal %v; want Unavailable, with ErrNoFleet", what, got, err, s.Refusal())
			continue
		}
		for _, text := range says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v; want it to say %q", what, err, text)
			}
		}
	}
}

func wantServed(t *testing.T, s *etcdstore.Store, fleet string) {
	t.Helper()
	for what, read := range identities(s) {
		if got, err := read(t.Context()); got != fleet || err != nil || s.Refusal() != nil {
			t.Errorf("%s: %q, %v, refusal %v; want %q", what, got, err, s.Refusal(), fleet)
		}
	}
}

// TestNobodyFounded: to read a store founds nothing, and the error says what to do.
func TestNobodyFounded(t *testing.T) {
	prefix := "/" + rand.Text()
	s := unfounded(t, etcdstore.Config{Prefix: prefix})
	wantRefused(t, s, "no fleet at etcd prefix "+prefix+"/: run `registryd init`, or correct --etcd-prefix")
	if resp, err := client(t).Get(t.Context(), prefix, clientv3.WithPrefix()); err != nil || len(resp.Kvs) > 0 {
		t.Errorf("%v, %v: reads left something in etcd", resp, err)
	}
	fleet, founded, err := s.Found(t.Context(), "")
	if err != nil || !founded || fleet == "" {
		t.Fatalf("Found: %q, %v, %v", fleet, founded, err)
	}
	wantServed(t, s, fleet)
}

// TestFound: of all that found at the same time one does, and the others get its fleet.
func TestFound(t *testing.T) {
	s := unfounded(t, etcdstore.Config{Prefix: "/" + rand.Text()})
	var mu sync.Mutex
	fleets, founders := map[string]bool{}, 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			fleet, founded, err := s.Found(t.Context(), "")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			fleets[fleet] = true
			if founded {
				founders++
			}
		})
	}
	all.Wait()
	if len(fleets) != 1 || founders != 1 {
		t.Errorf("%d founders of the fleets %v, want one", founders, fleets)
	}
	for fleet := range fleets {
		if got, founded, err := s.Found(t.Context(), fleet); got != fleet || founded || err != nil {
			t.Errorf("Found with the same id: %q, %v, %v", got, founded, err)
		}
	}
	if got, _, err := s.Found(t.Context(), "another"); got != "" || script.KindOf(err) != script.Invalid {
		t.Errorf("Found with another id: %q, %v; want Invalid", got, err)
	}
	if _, _, err := s.Found(t.Context(), "no/id"); script.KindOf(err) != script.Invalid {
		t.Errorf("Found with what is no id: %v", err)
	}
}

// TestTheFleetIsLost: a store that serves a fleet serves no other, until the fleet is back.
func TestTheFleetIsLost(t *testing.T) {
	for name, cfg := range map[string]etcdstore.Config{"the first that was read": {}, "the one of the configuration": {Fleet: "mine"}} {
		t.Run(name, func(t *testing.T) {
			cfg.Prefix = "/" + rand.Text()
			s, c, key := unfounded(t, cfg), client(t), cfg.Prefix+"/meta/fleet"
			put := func(value string) {
				t.Helper()
				if _, err := c.Put(t.Context(), key, value); err != nil {
					t.Fatal(err)
				}
			}
			put("mine")
			wantServed(t, s, "mine")
			if _, err := c.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, s, "fleet mine is not at etcd prefix", "restore etcd")
			put("another")
			wantRefused(t, s, "holds fleet another", "serves fleet mine")
			put("")
			wantRefused(t, s, "fleet mine is not at etcd prefix")
			put("\xff\x00")
			wantRefused(t, s, key, "etcdctl")
			put("mine")
			wantServed(t, s, "mine")
		})
	}
}

// TestNoWriteWithoutTheFleet: a store that serves a fleet changes nothing in an etcd that has
// lost it, or has another one, also before anybody noticed. The next registry would take what
// it finds there for its own.
func TestNoWriteWithoutTheFleet(t *testing.T) {
	for name, found := range map[string]string{"empty": "", "another fleet": "another"} {
		t.Run(name, func(t *testing.T) {
			prefix := "/" + rand.Text()
			s, c := open(t, prefix), client(t)
			wantServed(t, s, etcdtest.Found(t, s))
			if _, err := c.Delete(t.Context(), prefix+"/", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Put(t.Context(), prefix+"/audit/~", "of that fleet"); err != nil {
				t.Fatal(err)
			}
			if found != "" {
				if _, err := c.Put(t.Context(), prefix+"/meta/fleet", found); err != nil {
					t.Fatal(err)
				}
			}
			before := dump(t, c, prefix)
			for what, write := range writes(s) {
				if err := write(t.Context()); !errors.Is(err, registry.ErrNoFleet) || s.Refusal() == nil {
					t.Errorf("%s: %v, refusal %v; want ErrNoFleet", what, err, s.Refusal())
				}
			}
			if after := dump(t, c, prefix); !slices.Equal(before, after) {
				t.Errorf("etcd has\n%q; want\n%q", after, before)
			}
		})
	}
}

// writes are the changes that a store makes, but for those of a change that tidies up after
// itself.
func writes(s *etcdstore.Store) map[string]func(context.Context) error {
	name := script.Name{Tenant: "acme", Script: "route"}
	content := []byte("1")
	digest := script.DigestOf(content)
	all, _ := script.ParseSelector([]string{"acme"})
	value := script.Value{Key: script.ValueKey{Tenant: "acme", Key: "k"}, Digest: digest, Size: 1}
	return map[string]func(context.Context) error{
		"Commit": func(ctx context.Context) error { _, err := s.Commit(ctx, requested("route")); return err },
		"CommitValue": func(ctx context.Context) error {
			_, err := s.CommitValue(ctx, registry.ValueCommit{Value: value, Content: content})
			return err
		},
		"CommitTenant": func(ctx context.Context) error {
			_, err := s.CommitTenant(ctx, registry.TenantCommit{Tenant: script.Tenant{Name: "acme"}})
			return err
		},
		"NoteRequest": func(ctx context.Context) error {
			return s.NoteRequest(ctx, 0, "id", registry.Done{Name: name})
		},
		"AddAudit": func(ctx context.Context) error {
			return s.AddAudit(ctx, script.AuditEntry{Time: time.Unix(1e9, 0), Change: script.ChangeProfile})
		},
		"PutSource": func(ctx context.Context) error { _, err := s.PutSource(ctx, content); return err },
		"Restore": func(ctx context.Context) error {
			_, err := s.Restore(ctx, registry.Restoration{Release: script.Release{Name: name}, History: make([]script.HistoryEntry, 1)})
			return err
		},
		"RepairVersion": func(ctx context.Context) error { return s.RepairVersion(ctx, script.Release{Name: name}, 1, nil) },
		"ReplaceSource": func(ctx context.Context) error {
			return s.ReplaceSource(ctx, registry.Source{Digest: digest, Content: content})
		},
		"AcceptLoss": func(ctx context.Context) error { _, err := s.AcceptLoss(ctx, 1, 0, script.AuditEntry{}); return err },
		"Purge": func(ctx context.Context) error {
			return s.Purge(ctx, script.Object{Release: &script.Release{Name: name, Deleted: true}})
		},
		"Discard": func(ctx context.Context) error {
			_, err := s.Discard(ctx, registry.Blob{Digest: digest, Touched: 1 << 40})
			return err
		},
		"TrimAudit":   func(ctx context.Context) error { _, err := s.TrimAudit(ctx, time.Now()); return err },
		"PutGroup":    func(ctx context.Context) error { return s.PutGroup(ctx, all, 10) },
		"DeleteGroup": func(ctx context.Context) error { return s.DeleteGroup(ctx, all) },
		"PutSecrets":  func(ctx context.Context) error { return s.PutSecrets(ctx, content, 0) },
		"Remember": func(ctx context.Context) error {
			return s.Remember(ctx, []fleet.Memo{{Agent: "n1", Report: fleet.Report{Agent: "n1"}}})
		},
		"Campaign": func(ctx context.Context) error { _, err := s.Campaign(ctx); return err },
	}
}

// dump returns the keys with the prefix and their values.
func dump(t *testing.T, c *clientv3.Client, prefix string) (all []string) {
	t.Helper()
	resp, err := c.Get(t.Context(), prefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		all = append(all, string(kv.Key)+"="+string(kv.Value))
	}
	return all
}
