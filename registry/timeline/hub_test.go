package timeline_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// watcher reads a watch in the background.
type watcher struct {
	mu    sync.Mutex
	all   []string
	token string
	err   error
	stop  context.CancelFunc
	done  chan struct{}
}

func (b *bench) watch(f timeline.Filter, token string) *watcher {
	ctx, cancel := context.WithCancel(b.t.Context())
	w := &watcher{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for update, err := range b.Watch(ctx, timeline.WatchRequest{By: everybody, Filter: f, Token: token}) {
			w.mu.Lock()
			for i := range update.Events {
				w.all = append(w.all, update.Events[i].Text)
			}
			if w.err = err; err == nil {
				w.token = update.Token
			}
			w.mu.Unlock()
		}
	}()
	return w
}

// want waits until nothing moves, and checks what the watcher has got since the last call.
func (w *watcher) want(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.all, " "); got != want {
		t.Errorf("%s: %q, want %q", when, got, want)
	}
	w.all = nil
}

func (w *watcher) end() (token string, err error) {
	w.stop()
	<-w.done
	return w.token, w.err
}

// TestWatch: a watch has each event once, also over a reconnect to another replica, and over a restart.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.some()
		stop := b.follow()
		result, err := b.List(t.Context(), timeline.Request{By: everybody})
		if err != nil {
			t.Fatal(err)
		}
		b.write(named("acme", "route"), script.ChangePublish, "12")
		all, acme, now := b.watch(timeline.Filter{}, result.WatchToken), b.watch(timeline.Filter{Tenant: "acme"}, result.WatchToken), b.watch(timeline.Filter{}, "")
		all.want(t, "from the list on", "12")
		acme.want(t, "from the list on", "12")
		now.want(t, "from now on", "")
		b.write(named("shop", "cart"), script.ChangePublish, "13")
		b.record(script.EventAgent, "lost", "", "14")
		all.want(t, "live", "13 14")
		acme.want(t, "live", "")
		now.want(t, "live", "13 14")

		<-time.After(11 * time.Second) // a newer token comes without events
		other := &bench{t: t, store: b.store, now: b.now}
		token, _ := acme.end()
		b.write(named("acme", "route"), script.ChangePublish, "15")
		other.hub = timeline.NewHub(b.store, quiet())
		other.Timeline = timeline.New(b.store, other.hub)
		other.follow()
		again := other.watch(timeline.Filter{Tenant: "acme"}, token)
		again.want(t, "on another replica", "15")
		if token == result.WatchToken {
			t.Error("the token did not change")
		}

		token, _ = now.end()
		stop()
		b.write(named("acme", "route"), script.ChangePublish, "16")
		b.hub = timeline.NewHub(b.store, quiet())
		b.Timeline = timeline.New(b.store, b.hub)
		restarted := b.watch(timeline.Filter{}, token)
		restarted.want(t, "while the hub starts", "")
		b.follow()
		restarted.want(t, "after a restart", "16")
		for _, w := range []*watcher{all, again, restarted} {
			w.end()
		}
	})
}

// TestWatchFromWhatIsForgotten is refused: the watcher lists what it has missed.
func TestWatchFromWhatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.some()
		old, err := b.store.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.write(named("acme", "route"), script.ChangePublish, "12")
		now, err := b.store.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.store.Compact(script.Revision(now))
		b.follow()
		<-time.After(time.Minute) // the hub has found out
		for _, token := range []string{fmt.Sprint(old), fmt.Sprint(now + 1)} {
			w := b.watch(timeline.Filter{}, token)
			<-w.done
			if e := script.AsError(w.err); e == nil || e.Kind != script.Conflict || e.Field != "token" {
				t.Errorf("from %s, now is %d: %v", token, now, w.err)
			}
		}
		w := b.watch(timeline.Filter{}, fmt.Sprint(now))
		b.write(named("acme", "route"), script.ChangePublish, "13")
		w.want(t, "from now on", "13")
		w.end()
	})
}

// TestSlowWatchers: what a hub keeps is bounded, and who is slower hears so.
func TestSlowWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.write(named("acme", "route"), script.ChangePublish, "1")
		b.follow()
		synctest.Wait()
		seen, slow, failed := 0, make(chan struct{}), make(chan error, 1)
		go func() {
			for update, err := range b.Watch(t.Context(), timeline.WatchRequest{By: everybody, Token: "0"}) {
				if err != nil {
					failed <- err
					return
				}
				if seen += len(update.Events); seen == 1 {
					<-slow
				}
			}
		}()
		synctest.Wait()
		for i := range 5000 {
			b.record(script.EventAgent, "lost", "", fmt.Sprint(i))
		}
		synctest.Wait()
		close(slow)
		if err := <-failed; script.KindOf(err) != script.Conflict {
			t.Errorf("a slow watcher: %v", err)
		}
		if seen != 1 {
			t.Errorf("it has seen %d events before", seen)
		}
		mark, _ := b.store.Mark(t.Context())
		w := b.watch(timeline.Filter{}, fmt.Sprint(mark-4000))
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.all) != 4000 || w.all[0] != "1000" || w.all[3999] != "4999" {
			t.Errorf("%d events were kept", len(w.all))
		}
		w.stop()
	})
}

// TestARestoredStore: who watched a store that is behind now hears so.
func TestARestoredStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		link := &replaceable{counted: b.store}
		b.hub = timeline.NewHub(link, quiet())
		b.Timeline = timeline.New(link, b.hub)
		b.some()
		b.follow()
		w := b.watch(timeline.Filter{}, "")
		w.want(t, "before", "")
		before := newBench(t)
		before.write(named("acme", "route"), script.ChangePublish, "1")
		link.replace(before.store)
		b.hub.Reset(registry.State{})
		<-w.done
		if script.KindOf(w.err) != script.Conflict {
			t.Errorf("after a restore: %v", w.err)
		}
		again := b.watch(timeline.Filter{}, "")
		again.want(t, "after it", "")
		before.write(named("acme", "route"), script.ChangePublish, "2")
		again.want(t, "from then on", "2")
		b.hub.Reset(registry.State{}) // as when the registry falls behind its own watch
		before.write(named("acme", "route"), script.ChangePublish, "3")
		again.want(t, "after a start without a restore", "3")
		again.end()
	})
}
