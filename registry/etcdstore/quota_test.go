package etcdstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/embedded/etcdtest"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/etcdstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

type anything struct{}

func (anything) Name() string              { return "lua" }
func (anything) Check(engine.Source) error { return nil }

// small is a registry on an etcd that has little room.
type small struct {
	*registry.Registry
	store  *etcdstore.Store
	client *clientv3.Client
	etcd   *embedded.Etcd
	last   registry.Done // the last publish that happened
}

func newSmall(t *testing.T) *small {
	t.Helper()
	e, err := embedded.StartEtcd(t.Context(), embedded.EtcdConfig{Dir: t.TempDir(), QuotaBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	b := &small{etcd: e}
	b.store = b.open(t)
	b.Registry = registry.New(registry.Config{Store: b.store, Engines: map[string]engine.Checker{"lua": anything{}}})
	if b.client, err = clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	return b
}

func (b *small) open(t *testing.T) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{b.etcd.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	etcdtest.Found(t, s) // which a full etcd does not hinder, if there is a fleet
	return s
}

var quotaName = script.Name{Tenant: "acme", Script: "route"}

// publish publishes a source of a quarter of a MiB that nobody published before. Also one that
// ends in Unavailable may have happened: etcd does the write that exceeds its quota, and says
// that it has no space.
func (b *small) publish(t *testing.T) error {
	t.Helper()
	ctx := t.Context()
	w := registry.Write{Name: quotaName, Author: "ann", By: access.Everybody("unix"), RequestID: rand.Text()}
	source := strings.Repeat("-- "+rand.Text()+"\n", (256<<10)/(len(rand.Text())+4))
	_, failed := b.Publish(ctx, registry.PublishRequest{
		Write: w, Source: []byte(source), Settings: &script.Settings{Spec: script.Spec{Limits: script.Limits{SourceBytes: 1 << 20}}, HistoryLimit: 1},
	})
	done, happened, err := b.store.Request(ctx, quotaName, w.RequestID)
	if err != nil || failed == nil && !happened {
		t.Fatalf("what became of a publish that ended in %v: %v", failed, err)
	}
	if happened {
		b.last = done
	}
	return failed
}

// TestQuota: an etcd that is full refuses writes with an error that says what to do;
// reads and watches go on, also for a registry that starts then; and after room was
// made as the documentation says, writes work again.
func TestQuota(t *testing.T) {
	b := newSmall(t)
	ctx := t.Context()
	var full error
	for range 64 {
		if full = b.publish(t); full != nil {
			break
		}
	}
	if script.KindOf(full) != script.Unavailable {
		t.Fatalf("etcd is full: %v; want Unavailable", full)
	}
	for _, want := range []string{"quota", "compact", "defragment", "alarm"} {
		if !strings.Contains(full.Error(), want) {
			t.Errorf("%q does not say %q", full, want)
		}
	}
	b.wantReads(t)

	// Most of it are sources that no version uses any more: a full etcd still
	// lets them be removed.
	collector := registry.NewCollector(registry.CollectorConfig{Store: b.store, Garbage: b.store, Log: slog.New(slog.DiscardHandler)})
	removed := 0
	for range 2 {
		done, err := collector.Collect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		removed += done.Sources
	}
	if removed == 0 {
		t.Error("the collector removed nothing")
	}
	if err := b.publish(t); script.KindOf(err) != script.Unavailable {
		t.Errorf("before the alarm is disarmed: %v; want Unavailable", err)
	}
	b.makeRoom(t)
	b.wantReads(t)
	before := b.last.Version
	if err := b.publish(t); err != nil || b.last.Version != before+1 {
		t.Errorf("after room was made: version %d, %v; want what follows %d", b.last.Version, err, before)
	}
}

// makeRoom does what the documentation says.
func (b *small) makeRoom(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	now, err := b.client.Get(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.Defragment(ctx, b.etcd.Endpoint()); err != nil {
		t.Fatal(err)
	}
	alarms, err := b.client.AlarmList(ctx)
	if err != nil || len(alarms.Alarms) != 1 {
		t.Fatalf("alarms: %v, %v; want one", alarms, err)
	}
	if _, err := b.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarms.Alarms[0])); err != nil {
		t.Fatal(err)
	}
}

// wantReads checks that all can be read, by this registry and by one that starts now.
func (b *small) wantReads(t *testing.T) {
	t.Helper()
	for what, s := range map[string]*etcdstore.Store{"this": b.store, "a new": b.open(t)} {
		if err := readAll(t.Context(), s, b.last); err != nil {
			t.Errorf("%s registry cannot read: %v", what, err)
		}
	}
}

func readAll(ctx context.Context, s *etcdstore.Store, last registry.Done) error {
	if _, err := s.Fleet(ctx); err != nil {
		return fmt.Errorf("Fleet: %w", err)
	}
	r, err := s.Release(ctx, quotaName)
	if err != nil {
		return fmt.Errorf("Release: %w", err)
	}
	if r.Revision != last.Revision || r.Active.Number != last.Version {
		return fmt.Errorf("Release: version %d at revision %d, want %d at %d", r.Active.Number, r.Revision, last.Version, last.Revision)
	}
	if sources, err := s.Sources(ctx, []script.Digest{r.Active.Digest}); err != nil {
		return fmt.Errorf("Sources: %w", err)
	} else if len(sources) != 1 {
		return fmt.Errorf("Sources: %d, want one", len(sources))
	}
	if _, err := s.History(ctx, quotaName); err != nil {
		return fmt.Errorf("History: %w", err)
	}
	if _, _, err := s.Audit(ctx, registry.AuditFilter{}, "", 10); err != nil {
		return fmt.Errorf("Audit: %w", err)
	}
	snapshot, err := s.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("Snapshot: %w", err)
	}
	if snapshot.Head != r.Revision {
		return fmt.Errorf("Snapshot: head %d, want %d", snapshot.Head, r.Revision)
	}
	for _, err := range snapshot.Releases {
		if err != nil {
			return fmt.Errorf("Snapshot: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for tx, err := range s.Watch(ctx, r.Revision-1) {
		if err != nil && script.KindOf(err) == script.Unavailable && strings.Contains(err.Error(), "compacted") {
			return nil // after room was made
		}
		if err != nil {
			return fmt.Errorf("Watch: %w", err)
		}
		if tx.Revision != r.Revision {
			return fmt.Errorf("Watch: revision %d, want %d", tx.Revision, r.Revision)
		}
		return nil
	}
	return ctx.Err()
}
