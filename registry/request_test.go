package registry_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// lossy is a store that loses the answer of every commit while losing is set: the
// commit happens, and the caller gets an error that leaves this open.
type lossy struct {
	*memstore.Store
	mu     sync.Mutex
	losing bool
	lost   int
}

func (l *lossy) lose(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losing = on
}

func (l *lossy) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	revision, err := l.Store.Commit(ctx, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.losing && err == nil {
		l.lost++
		return 0, script.Errorf(script.Unavailable, "", "the answer was lost")
	}
	return revision, err
}

func newLossyBench(t *testing.T) (*bench, *lossy) {
	t.Helper()
	store := &lossy{Store: memstore.New()}
	b := &bench{t: t, store: store.Store, checker: &checker{}}
	b.Registry = registry.New(registry.Config{Store: store, Engines: map[string]engine.Checker{"lua": b.checker}})
	return b, store
}

// TestRetriesHappenOnce: a write whose answer was lost is asked for again, with the
// same id, and happens once; even if another writer came in between.
func TestRetriesHappenOnce(t *testing.T) {
	type answer struct {
		release script.Release
		version uint64
		changed bool
	}
	simple := func(r registry.Result, err error) (answer, error) { return answer{r.Release, 0, r.Changed}, err }
	publish := func(source string, opts ...func(*registry.PublishRequest)) func(b *bench, w registry.Write) (answer, error) {
		return func(b *bench, w registry.Write) (answer, error) {
			r, err := b.tryPublish(source, append([]func(*registry.PublishRequest){func(r *registry.PublishRequest) { r.Write = w }}, opts...)...)
			return answer{r.Release, r.Version.Number, r.Changed}, err
		}
	}
	writes := map[string]struct {
		do      func(b *bench, w registry.Write) (answer, error)
		change  script.Change
		version uint64
	}{
		"publish":          {publish("four"), script.ChangePublish, 4},
		"publish settings": {publish("three", settings(script.Settings{HistoryLimit: 7})), script.ChangeConfigure, 3},
		"publish to claim": {publish("three", func(r *registry.PublishRequest) { r.Owner = cr }), script.ChangeOwn, 3},
		"publish with pin": {publish("three", pin(1)), script.ChangePin, 3},
		"rollback to any": {func(b *bench, w registry.Write) (answer, error) {
			return simple(b.Rollback(b.t.Context(), registry.RollbackRequest{Write: w}))
		}, script.ChangeRollback, 0},
		"delete": {func(b *bench, w registry.Write) (answer, error) {
			return simple(b.Delete(b.t.Context(), registry.DeleteRequest{Write: w}))
		}, script.ChangeDelete, 0},
		"disable": {func(b *bench, w registry.Write) (answer, error) {
			return simple(b.SetEnabled(b.t.Context(), registry.SetEnabledRequest{Write: w}))
		}, script.ChangeDisable, 0},
		"own": {func(b *bench, w registry.Write) (answer, error) {
			return simple(b.SetOwner(b.t.Context(), registry.SetOwnerRequest{Write: w, NewOwner: cr}))
		}, script.ChangeOwn, 0},
		"publish at a rev.": {publish("four", func(r *registry.PublishRequest) { r.ExpectedRevision = 3 }), script.ChangePublish, 4},
	}
	between := map[string]func(b *bench){
		"nobody":           func(*bench) {},
		"another publish":  func(b *bench) { b.publish("five", force) },
		"another rollback": func(b *bench) { _, _ = b.Rollback(b.t.Context(), registry.RollbackRequest{Write: forced()}) },
		"delete":           func(b *bench) { _, _ = b.Delete(b.t.Context(), registry.DeleteRequest{Write: forced()}) },
		"delete and purge": func(b *bench) {
			_, _ = b.Delete(b.t.Context(), registry.DeleteRequest{Write: forced()})
			r, err := b.store.Release(b.t.Context(), route)
			if err == nil {
				err = b.store.Purge(b.t.Context(), script.Object{Release: &r})
			}
			if err != nil {
				b.t.Error(err)
			}
		},
	}
	for what, w := range writes {
		for who, meddle := range between {
			t.Run(what+"/"+who, func(t *testing.T) {
				b, store := newLossyBench(t)
				for _, source := range []string{"one", "two", "three"} {
					b.publish(source)
				}
				req := write(route)
				req.RequestID = rand.Text()
				store.lose(true)
				if _, err := w.do(b, req); script.KindOf(err) != script.Unavailable {
					t.Fatalf("the answer was not lost: %v", err)
				}
				store.lose(false)
				meddle(b)
				head := b.head()
				for range 3 {
					got, err := w.do(b, req)
					if err != nil || !got.changed || got.version != w.version {
						t.Fatalf("asked again: %+v, %v; want changed, version %d", got, err, w.version)
					}
					if now, _ := b.store.Release(t.Context(), route); got.release.Revision != now.Revision || got.release.Latest != now.Latest {
						t.Errorf("asked again: %+v; want the release as it is: %+v", got.release, now)
					}
				}
				if b.head() != head {
					t.Error("it happened twice")
				}
				n := 0
				for e := range b.lastAudits(100) {
					if e.Revision == 4 && e.Change == w.change {
						n++
					}
				}
				if n != 1 || store.lost != 1 {
					t.Errorf("the audit trail has it %d times, %d answers were lost; want 1, 1", n, store.lost)
				}
			})
		}
	}
}

func forced() registry.Write {
	w := write(route)
	w.Force = true
	return w
}

func force(r *registry.PublishRequest) { r.Force = true }

// TestRetriesOfManyHappenOnce: writers retry until they have an answer, while answers
// are lost; each write happens once.
func TestRetriesOfManyHappenOnce(t *testing.T) {
	b, store := newLossyBench(t)
	const writers, each = 6, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				req := write(route)
				req.RequestID = rand.Text()
				source := fmt.Sprintf("writer %d, %d", w, i)
				store.lose(i%3 == w%3)
				for {
					_, err := b.tryPublish(source, func(r *registry.PublishRequest) { r.Write = req })
					if err == nil {
						break
					}
					if kind := script.KindOf(err); kind != script.Unavailable && kind != script.Conflict {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if latest := b.get().Latest; latest != writers*each {
		t.Errorf("%d versions were made of %d publishes, %d answers were lost", latest, writers*each, store.lost)
	}
}

func TestRequestIDs(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	id := rand.Text()
	with := func(id string, name script.Name) registry.Write {
		w := write(name)
		w.RequestID = id
		return w
	}
	publish := func(w registry.Write, source string) (registry.PublishResult, error) {
		return b.Publish(ctx, registry.PublishRequest{Write: w, Source: []byte(source), Entrypoint: "handle"})
	}
	first, err := publish(with(id, route), "one")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.SetEnabled(ctx, registry.SetEnabledRequest{Write: with(id, route)})
	wantKind(t, err, script.Invalid, "request_id")
	b.publish("two")
	again, err := publish(with(id, route), "one")
	if err != nil || !again.Changed || again.Version != first.Version || again.Release.Latest != 2 {
		t.Errorf("again: %+v, %v; want version 1 as it was made, and the release as it is", again, err)
	}
	// Each script has ids of its own: nobody uses up another's.
	other := script.Name{Tenant: "acme", Script: "other"}
	if r, err := publish(with(id, other), "one"); err != nil || !r.Changed {
		t.Errorf("the id of another script: %+v, %v", r, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 15), strings.Repeat("x", 65), "0123456789abcde\x00", "0123456789abcdef\xff"} {
		_, err := publish(with(bad, route), "three")
		wantKind(t, err, script.Invalid, "request_id")
	}
	_, err = publish(with(strings.Repeat("x", 16), route), "three")
	if err != nil {
		t.Error(err)
	}
}

// TestUnchangedIsRemembered: a write that changed nothing changes nothing either when
// it is asked for again, whatever others wrote in between.
func TestUnchangedIsRemembered(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish("one")
	w := write(route)
	w.RequestID = rand.Text()
	publish := func() (registry.PublishResult, error) {
		return b.Publish(ctx, registry.PublishRequest{Write: w, Source: []byte("one"), Entrypoint: "handle"})
	}
	head := b.head()
	if r, err := publish(); err != nil || r.Changed || r.Version.Number != 1 {
		t.Fatalf("what is there: %+v, %v", r, err)
	}
	if b.head() != head {
		t.Error("a write that changed nothing is a transaction")
	}
	b.publish("two")
	head = b.head()
	if r, err := publish(); err != nil || r.Changed || r.Version.Number != 1 || r.Release.Latest != 2 {
		t.Errorf("again: %+v, %v; want it unchanged, of version 1", r, err)
	}
	if b.head() != head {
		t.Error("a retry took back what another wrote")
	}
	dry := registry.PublishRequest{Write: write(route), Source: []byte("two"), Entrypoint: "handle", DryRun: true}
	dry.RequestID = rand.Text()
	if _, err := b.Publish(ctx, dry); err != nil {
		t.Error(err)
	}
	if _, ok, _ := b.store.Request(ctx, route, dry.RequestID); ok {
		t.Error("a dry run is remembered")
	}
}

// TestOneIDForTwoRequests: a request that asks for anything else than the first with
// its id gets an error that says so, and not the first one's result.
func TestOneIDForTwoRequests(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish("one")
	b.publish("two")
	b.publish("three")
	first := func() (func(opts ...func(*registry.PublishRequest)) error, registry.Write) {
		w := write(route)
		w.RequestID = rand.Text()
		return func(opts ...func(*registry.PublishRequest)) error {
			_, err := b.tryPublish("four", append([]func(*registry.PublishRequest){func(r *registry.PublishRequest) { r.Write = w }}, opts...)...)
			return err
		}, w
	}
	publish, w := first()
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	off := false
	head := b.head()
	for what, other := range map[string]func(*registry.PublishRequest){
		"source":     func(r *registry.PublishRequest) { r.Source = []byte("five") },
		"entrypoint": func(r *registry.PublishRequest) { r.Entrypoint = "other" },
		"settings":   settings(script.Settings{HistoryLimit: 9}),
		"enabled":    func(r *registry.PublishRequest) { r.Enabled = &off },
		"pin":        pin(1),
		"owner":      func(r *registry.PublishRequest) { r.Owner = cr },
		"force":      force,
		"revision":   func(r *registry.PublishRequest) { r.ExpectedRevision = 3 },
	} {
		if err := publish(other); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "another request") {
			t.Errorf("with another %s: %v; want it refused as another request", what, err)
		}
	}
	if err := publish(func(r *registry.PublishRequest) { r.Author, r.Note = "bob", "again" }); err != nil {
		t.Errorf("by somebody else, who says why: %v; want it to be the same request", err)
	}
	if _, err := b.Pin(ctx, registry.PinRequest{Write: w, Version: 1}); script.KindOf(err) != script.Invalid {
		t.Errorf("a pin: %v", err)
	}
	_, w = first()
	if _, err := b.Pin(ctx, registry.PinRequest{Write: w, Version: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Pin(ctx, registry.PinRequest{Write: w, Version: 2})
	wantKind(t, err, script.Invalid, "request_id")
	if got := b.head(); got != head+1 {
		t.Errorf("the head is %d, want %d: nothing but the first pin", got, head+1)
	}
}
