package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The node's Report checks of each status that it can be sent.
func TestAStatusCanBeSentWhateverFailed(t *testing.T) {
	for name, source := range map[string]string{
		"not UTF-8":              "bad \xff\xfe",
		"long":                   "bad " + strings.Repeat("x", 10_000),
		"long and not UTF-8":     "bad " + strings.Repeat("\xff", 10_000),
		"cut within a character": "bad " + strings.Repeat("é", 5000),
		"cut within another":     "bad  " + strings.Repeat("é", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world, n *node, _ *follow.Follower) {
				for i := range 300 {
					w.commit(map[string]string{fmt.Sprint("s", i): source})
				}
				pass(time.Second)
				n.mu.Lock()
				defer n.mu.Unlock()
				if len(n.status.GetFailures()) != 256 {
					t.Fatalf("%d failures are reported", len(n.status.GetFailures()))
				}
				got := n.status.GetFailures()[0].GetError().GetMessage()
				if !utf8.ValidString(got) || !strings.HasPrefix(got, "bad source: bad") {
					t.Errorf("the reason is %.80q", got)
				}
			})
		})
	}
}

// refusing is a Reporter that fails as long as fails is set.
type refusing struct{ fails atomic.Bool }

func (r *refusing) Report(context.Context, *eventv1.Status, seal.Session) error {
	if r.fails.Load() {
		return errors.New("no such luck")
	}
	return nil
}

func TestAStatusThatCannotBeSentIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reporter := &refusing{}
		reporter.fails.Store(true)
		w := newWorld(t, 1)
		cfg := newNode(w, "n").config(1)
		cfg.Reporter = reporter
		cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		f, err := follow.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		for streak := range 2 {
			reporter.fails.Store(true)
			pass(time.Minute)
			if got := strings.Count(log.String(), "no such luck"); got != streak+1 {
				t.Errorf("warned %d times in %d streaks:\n%s", got, streak+1, log.String())
			}
			reporter.fails.Store(false)
			pass(time.Minute)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A report that waited for its turn says since when each release has been live.
func TestAStatusSaysWhenReleasesWentLive(t *testing.T) {
	simulate(t, func(w *world, n *node, _ *follow.Follower) {
		pass(time.Second)
		for i := range 40 {
			w.commit(map[string]string{fmt.Sprint("s", i): "good"})
			pass(10 * time.Millisecond)
		}
		pass(time.Second)
		n.mu.Lock()
		list, activated := n.status.GetActivations(), n.status.GetActivatedRevision()
		n.mu.Unlock()
		if len(list) != 32 || list[len(list)-1].GetRevision() != activated {
			t.Fatalf("%d activations up to %v, want 32 up to %d", len(list), list[len(list)-1], activated)
		}
		for i := range list[1:] {
			before, after := list[i], list[i+1]
			if before.GetRevision() >= after.GetRevision() || before.GetAgo().AsDuration()-after.GetAgo().AsDuration() != 10*time.Millisecond {
				t.Errorf("activations %v and %v; want them in order and 10 ms apart", before, after)
			}
		}
		pass(time.Minute)
		n.mu.Lock()
		defer n.mu.Unlock()
		if old := n.status.GetActivations(); len(old) != 0 {
			t.Errorf("a minute later: %v", old)
		}
	})
}

// A status lists troubles among the failures, and hides no newer failure of the same
// script.
func TestAStatusTellsTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		n := newNode(w, "n")
		cfg := n.config(1)
		var troubles atomic.Pointer[[]follow.Trouble]
		troubles.Store(&[]follow.Trouble{})
		cfg.Troubles = func() []follow.Trouble { return *troubles.Load() }
		f, err := follow.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		pass(time.Second)
		at := w.commit(map[string]string{"a": "one", "b": "one"})
		pass(time.Second)
		killed := script.Errorf(script.Limit, "", "it has killed its process three times")
		troubles.Store(&[]follow.Trouble{
			{Key: "releases/acme/a", Revision: at, Err: killed}, {Key: "releases/acme/b", Revision: at, Err: killed},
		})
		f.TroublesChanged()
		pass(200 * time.Millisecond)
		told := func() string {
			n.mu.Lock()
			defer n.mu.Unlock()
			var all []string
			for _, f := range n.status.GetFailures() {
				all = append(all, fmt.Sprint(f.GetKey(), "@", f.GetRevision(), " ", f.GetError().GetKind()))
			}
			return strings.Join(all, ", ")
		}
		if got, want := told(), fmt.Sprintf("releases/acme/a@%d LIMIT, releases/acme/b@%[1]d LIMIT", at); got != want {
			t.Errorf("told: %s; want %s", got, want)
		}
		bad := w.commit(map[string]string{"a": "bad"})
		pass(200 * time.Millisecond)
		if got, want := told(), fmt.Sprintf("releases/acme/b@%d LIMIT, releases/acme/a@%d SCRIPT", at, bad); got != want {
			t.Errorf("told: %s; want %s", got, want)
		}
		var many []follow.Trouble
		for i := range 400 {
			many = append(many, follow.Trouble{Key: fmt.Sprint("releases/acme/m", i), Revision: at, Err: killed})
		}
		troubles.Store(&many)
		head := w.commit(map[string]string{"a": "good again"})
		f.TroublesChanged()
		pass(time.Second)
		n.mu.Lock()
		if got := n.status; len(got.GetFailures()) != 256 || got.GetActivatedRevision() != int64(head) {
			t.Errorf("with 400 troubles of what is live: %d told, activated %d of %d", len(got.GetFailures()), got.GetActivatedRevision(), head)
		}
		n.mu.Unlock()
		troubles.Store(&[]follow.Trouble{})
		w.commit(map[string]string{"a": "two"})
		pass(200 * time.Millisecond)
		if got := told(); got != "" {
			t.Errorf("told later: %s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAStatusTellsLags: there is room for so many tenants. What is left out is not claimed to be live.
func TestAStatusTellsLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		n := newNode(w, "n")
		cfg := n.config(1)
		var lags atomic.Pointer[map[string]script.Revision]
		lags.Store(&map[string]script.Revision{})
		cfg.Lags = func() map[string]script.Revision { return *lags.Load() }
		f, err := follow.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		pass(time.Second)
		at := w.commit(map[string]string{"a": "one"})
		pass(time.Second)
		told := func(want map[string]script.Revision) {
			lags.Store(&want)
			f.TroublesChanged()
			pass(200 * time.Millisecond)
		}
		told(map[string]script.Revision{"shop": at - 1, "acme": at - 1})
		n.mu.Lock()
		if got := n.status; len(got.GetLags()) != 2 || got.GetLags()[0].GetTenant() != "acme" || got.GetLags()[1].GetAbove() != int64(at-1) || got.GetActivatedRevision() != int64(at) {
			t.Errorf("told: %v, activated %d of %d", got.GetLags(), got.GetActivatedRevision(), at)
		}
		n.mu.Unlock()
		starting := map[string]script.Revision{} // as when an agent with so many processes starts
		for i := range 1024 {
			starting[fmt.Sprint("t", i)] = 0
		}
		told(starting)
		n.mu.Lock()
		if got := n.status; len(got.GetLags()) != 1024 || got.GetActivatedRevision() != int64(at) {
			t.Errorf("of 1024 lags: %d told, activated %d of %d; want what others have activated", len(got.GetLags()), got.GetActivatedRevision(), at)
		}
		n.mu.Unlock()
		many := map[string]script.Revision{}
		for i := range 1100 {
			many[fmt.Sprint("t", i)] = at - 1
		}
		many["first"] = 0
		told(many)
		n.mu.Lock()
		if got := n.status; len(got.GetLags()) != 1024 || got.GetLags()[0].GetTenant() != "first" || got.GetActivatedRevision() != int64(at-1) {
			t.Errorf("of 1101 lags: %d told, %v first, activated %d of %d", len(got.GetLags()), got.GetLags()[0], got.GetActivatedRevision(), at)
		}
		n.mu.Unlock()
		told(nil)
		n.mu.Lock()
		if got := n.status; len(got.GetLags()) != 0 || got.GetActivatedRevision() != int64(at) {
			t.Errorf("told later: %v, activated %d of %d", got.GetLags(), got.GetActivatedRevision(), at)
		}
		n.mu.Unlock()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
