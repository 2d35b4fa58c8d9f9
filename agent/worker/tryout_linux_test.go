package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tryOut runs a script of acme that is not published.
func (w *world) tryOut(source string) (*tryout.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	limits := script.MaxLimits()
	a, isolated, err := w.pool.TryOut(ctx, &eventv1.TryScript{
		Tenant: "acme", Name: "draft", Engine: "breaking", Source: []byte(source), Calls: []*eventv1.TryCall{{}},
		Settings: wire.FromSettings(script.Settings{Spec: script.Spec{Limits: limits}}),
	})
	if err == nil && !isolated {
		w.tb.Error("it does not run in the process of its tenant")
	}
	return a, err
}

// TestKilledWhileItTries: who tries a script whose process ends learns so, whether the script is why or not. No script that is
// published is to blame, and calls go on.
func TestKilledWhileItTries(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/live", `function handle(a) return "hello " .. a end`)
	w.publish("lua", "shop/cart", `function handle(a) return "cart " .. a end`)
	for _, source := range []string{"overflow", uncompilable, "wait", "overflow", "wait"} {
		w.answer("acme/live", `"x"`)
		ended := make(chan error, 1)
		go func() {
			a, err := w.tryOut(source)
			if err == nil {
				t.Errorf("%s: %+v", source, a)
			}
			ended <- err
		}()
		var err error
		for over := false; !over; {
			select {
			case err = <-ended:
				over = true
			case <-time.After(50 * time.Millisecond): // it may have begun
				if source == "wait" {
					w.serving()
					kill(t, w.pid("acme"))
				}
			}
			if got, err := w.call("shop/cart", `"x"`); err != nil || got != `"cart x"` {
				t.Errorf("another tenant: %q, %v", got, err)
			}
		}
		if script.KindOf(err) != script.Unavailable || !errors.Is(err, worker.ErrEnded) || !strings.Contains(err.Error(), "ended while it ran the script") {
			t.Errorf("%s: %v", source, err)
		}
		if q := w.pool.Quarantined(); len(q) > 0 {
			t.Errorf("%s: in quarantine: %+v", source, q)
		}
	}
	w.answer("acme/live", `"x"`)
}
