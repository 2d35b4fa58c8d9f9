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
)

// The node's Report checks of each status that it can be sent.
func TestAStatusCanBeSentWhateverFailed(t *testing.T) {
	for name, source := range map[string]string{
		"not UTF-8":              "bad \xff\xfe",
		"long":                   "bad " + strings.Repeat("x", 100_000),
		"long and not UTF-8":     "bad " + strings.Repeat("\xff", 100_000),
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

// refusing is a Reporter that fails for as long as it is told to.
type refusing struct{ fails atomic.Bool }

func (r *refusing) Report(context.Context, *eventv1.Status) error {
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
		f, err := follow.New(follow.Config{
			Agent: "n", State: newNode(w, "n"), Registry: w, Feed: w, Reporter: reporter,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), Seed: 1,
		})
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
