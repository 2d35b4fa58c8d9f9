package registry_test

import (
	"context"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// counted counts what a write reads.
type counted struct {
	*memstore.Store
	reads   int
	commits int
	commit  error // of the next commit, which is done all the same
}

func (c *counted) Release(ctx context.Context, name script.Name) (script.Release, error) {
	c.reads++
	return c.Store.Release(ctx, name)
}

func (c *counted) DataUsage(ctx context.Context, key script.ValueKey) (registry.DataUsage, error) {
	c.reads++
	return c.Store.DataUsage(ctx, key)
}

func (c *counted) Commit(ctx context.Context, commit registry.Commit) (script.Revision, error) {
	c.commits++
	revision, err := c.Store.Commit(ctx, commit)
	if c.commit != nil && err == nil {
		revision, err, c.commit = 0, c.commit, nil
	}
	return revision, err
}

// remembering is a registry that knows what changed last, up to the revision told.
type remembering struct {
	*bench
	counted *counted
	recent  *registry.Recent
	told    script.Revision
	news    func(registry.QuotaNews) // is told of quotas, if it is not nil
}

// newRemembering returns a registry with one version of route, known to it, and another
// one on the same store that it hears of only by catchUp.
func newRemembering(t *testing.T) (r *remembering, other *bench) {
	t.Helper()
	other = newBench(t)
	b := *other
	r = &remembering{bench: &b, counted: &counted{Store: other.store}, recent: registry.NewRecent()}
	r.Registry = registry.New(registry.Config{
		Store: r.counted, Recent: r.recent, Engines: map[string]engine.Checker{"lua": other.checker},
		OnQuota: func(n registry.QuotaNews) {
			if r.news != nil {
				r.news(n)
			}
		},
	})
	r.recent.Reset(registry.State{})
	r.publish("first")
	r.catchUp()
	return r, other
}

func (r *remembering) catchUp() {
	r.t.Helper()
	head := r.head()
	if head == r.told {
		return
	}
	for tx, err := range r.store.Watch(r.t.Context(), r.told) {
		if err != nil {
			r.t.Fatal(err)
		}
		r.recent.Apply(tx)
		if r.told = tx.Revision; r.told == head {
			break
		}
	}
	r.counted.reads = 0
}

func TestAWriteOfWhatIsKnownReadsNothing(t *testing.T) {
	r, _ := newRemembering(t)
	wantRelease(t, r.publish("second").Release, 2, 2, false)
	r.catchUp()
	if _, err := r.Rollback(t.Context(), registry.RollbackRequest{Write: write(route)}); err != nil {
		t.Error(err)
	}
	if r.counted.reads > 0 {
		t.Errorf("%d reads", r.counted.reads)
	}
	wantRelease(t, r.get(), 1, 2, true)
}

// What is remembered may be long past: the answer is that of a registry which has read.
func TestWhatIsRememberedIsPast(t *testing.T) {
	on := true
	for name, test := range map[string]struct {
		meanwhile func(*bench)
		then      func(*remembering) error
		kind      script.Kind
		active    uint64
		latest    uint64
	}{
		"another version": {
			meanwhile: func(o *bench) { o.publish("theirs") },
			then:      func(r *remembering) error { _, err := r.tryPublish("ours"); return err },
			active:    3, latest: 3,
		},
		"what seems to be there is not": {
			meanwhile: func(o *bench) { o.publish("theirs") },
			then:      func(r *remembering) error { _, err := r.tryPublish("first"); return err },
			active:    3, latest: 3,
		},
		"what seems not to be there is": {
			meanwhile: func(o *bench) { o.publish("theirs") },
			then: func(r *remembering) error {
				_, err := r.Pin(r.t.Context(), registry.PinRequest{Write: write(route), Version: 2})
				return err
			},
			active: 2, latest: 2,
		},
		"deleted": {
			meanwhile: func(o *bench) {
				if _, err := o.Delete(o.t.Context(), registry.DeleteRequest{Write: write(route)}); err != nil {
					o.t.Fatal(err)
				}
			},
			then: func(r *remembering) error {
				_, err := r.SetEnabled(r.t.Context(), registry.SetEnabledRequest{Write: write(route), Enabled: !on})
				return err
			},
			kind: script.NotFound, latest: 1,
		},
		"owned": {
			meanwhile: func(o *bench) { o.publish("first", func(p *registry.PublishRequest) { p.Owner = "them" }) },
			then: func(r *remembering) error {
				_, err := r.tryPublish("ours", func(p *registry.PublishRequest) { p.Owner = "us" })
				return err
			},
			kind: script.Denied, active: 1, latest: 1,
		},
		"the tenant may have less": {
			meanwhile: func(o *bench) { o.bound(script.Limits{SourceBytes: 3}) },
			then:      func(r *remembering) error { _, err := r.tryPublish("longer"); return err },
			kind:      script.Invalid, active: 1, latest: 1,
		},
		"expected": {
			meanwhile: func(o *bench) { o.publish("theirs") },
			then: func(r *remembering) error {
				_, err := r.tryPublish("ours", func(p *registry.PublishRequest) { p.ExpectedRevision = r.told })
				return err
			},
			kind: script.Conflict, active: 2, latest: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, other := newRemembering(t)
			test.meanwhile(other)
			if err := test.then(r); script.KindOf(err) != test.kind {
				t.Errorf("%v, want %q", err, test.kind)
			}
			now, err := r.store.Release(t.Context(), route)
			if err != nil {
				t.Fatal(err)
			}
			wantRelease(t, now, test.active, test.latest, name == "what seems not to be there is")
		})
	}
}

func (b *bench) bound(limits script.Limits) {
	b.t.Helper()
	_, _, err := b.SetTenant(b.t.Context(), registry.SetTenant{
		Tenant: route.Tenant, Author: "ann", By: everybody, Settings: &script.TenantSettings{Limits: limits},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// A tenant that may have more is known at the first try, like a release.
func TestTenantsAreRemembered(t *testing.T) {
	r, other := newRemembering(t)
	other.bound(script.Limits{SourceBytes: 5})
	r.catchUp()
	if _, err := r.tryPublish("longer"); script.KindOf(err) != script.Invalid {
		t.Errorf("%v, want that it is too long", err)
	}
	other.bound(script.Limits{SourceBytes: 50})
	r.catchUp()
	r.publish("longer")
	if r.counted.reads > 0 {
		t.Errorf("%d reads", r.counted.reads)
	}
}

// Nobody knows whether such a commit happened: it must not be tried again.
func TestACommitWithoutAnAnswerIsNotTriedAgain(t *testing.T) {
	r, _ := newRemembering(t)
	r.counted.commit = script.Errorf(script.Unavailable, "", "the store does not answer")
	if _, err := r.tryPublish("second"); script.KindOf(err) != script.Unavailable {
		t.Errorf("%v, want what the store said", err)
	}
	wantRelease(t, r.get(), 2, 2, false)
}

// A request that was repeated answers as it did, whatever is remembered.
func TestARepeatedRequestIsRecognised(t *testing.T) {
	r, _ := newRemembering(t)
	once := func(p *registry.PublishRequest) { p.RequestID = "0123456789abcdef" }
	first := r.publish("second", once)
	again := r.publish("second", once) // the memory has not seen the first yet
	if !first.Changed || again.Release.Revision != first.Release.Revision || again.Version.Number != 2 {
		t.Errorf("%+v, and then %+v", first, again)
	}
	wantRelease(t, r.get(), 2, 2, false)
}

// A registry that has just begun to follow knows what there is.
func TestWhatThereIsIsRemembered(t *testing.T) {
	r, other := newRemembering(t)
	other.bound(script.Limits{SourceBytes: 5})
	other.publish("other")
	tenant, err := other.Tenant(t.Context(), everybody, route.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	r.recent.Reset(registry.State{Releases: []script.Release{other.get()}, Tenants: []script.Tenant{tenant}})
	r.publish("mine")
	if r.counted.reads > 0 {
		t.Errorf("%d reads", r.counted.reads)
	}
	r.recent.Reset(registry.State{})
	if r.publish("more"); r.counted.reads == 0 {
		t.Error("what was forgotten was not read")
	}
}

// Nobody hears when the tombstone of a tenant's settings is collected, so what it was is
// not relied on.
func TestATenantThatIsGoneIsNotRemembered(t *testing.T) {
	r, other := newRemembering(t)
	other.bound(script.Limits{SourceBytes: 5})
	if _, _, err := other.SetTenant(t.Context(), registry.SetTenant{Tenant: route.Tenant, Author: "ann", By: everybody}); err != nil {
		t.Fatal(err)
	}
	r.catchUp()
	for tombstone, err := range r.store.Tombstones(t.Context(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) {
		if err != nil {
			t.Fatal(err)
		}
		if err := r.store.Purge(t.Context(), tombstone); err != nil {
			t.Fatal(err)
		}
	}
	wantRelease(t, r.publish("longer").Release, 2, 2, false)
	if r.counted.commits != 2 {
		t.Errorf("%d commits, want one for each publish", r.counted.commits)
	}
}

// A source that does not compile is compiled once, whatever is remembered.
func TestWhatDoesNotCompileIsCompiledOnce(t *testing.T) {
	r, _ := newRemembering(t)
	before := r.checker.checked
	if _, err := r.tryPublish("broken"); script.KindOf(err) != script.Script {
		t.Errorf("%v, want that it does not compile", err)
	}
	if n := r.checker.checked - before; n != 1 {
		t.Errorf("compiled %d times", n)
	}
}
