package worker_test

import (
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/agent/worker"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestProfileOfAProcess: the tenant's process profiles its script, until it is told to stop.
func TestProfileOfAProcess(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/hot", "local n = 0\nfor i = 1, 20000 do n = n + i % 7 end\nreturn n")
	w.publish("lua", "acme/beside", "local n = 0\n\n\nfor i = 1, 20000 do n = n + i % 7 end\nreturn n")
	w.answer("acme/hot")
	w.answer("acme/beside")
	spec := profile.Spec{Script: script.Name{Tenant: "acme", Script: "hot"}, ID: "id", Duration: time.Minute}
	stop, done := make(chan struct{}), make(chan struct{})
	var (
		got *worker.Profile
		err error
	)
	go func() {
		defer close(done)
		for got, err = w.pool.Profile(t.Context(), spec, stop); script.KindOf(err) == script.Conflict; { // with the one below
			got, err = w.pool.Profile(t.Context(), spec, stop)
		}
	}()
	if !w.until(func() bool { // the process says that there is one already
		_, again := w.pool.Profile(t.Context(), profile.Spec{Script: spec.Script, Duration: time.Millisecond}, nil)
		return script.KindOf(again) == script.Conflict
	}) {
		t.Fatal("no profile begins")
	}
	for range 5 {
		w.answer("acme/hot")
		w.answer("acme/beside")
	}
	close(stop)
	<-done
	if err != nil {
		t.Fatal(err)
	}
	hot, all, calls := uint64(0), uint64(0), uint64(0)
	for _, m := range got.Parts {
		calls += m.GetCalls()
		for _, s := range m.GetStacks() {
			all += s.GetInstructions()
			if m.GetFrames()[s.GetFrames()[0]].GetLine() == 2 {
				hot += s.GetInstructions()
			}
		}
	}
	if calls != 5 || hot < all*9/10 || all < 5*50_000 || all > 5*120_000 {
		t.Errorf("%d of %d instructions of %d calls are on line 2", hot, all, calls)
	}
	if shared, err := w.pool.Profile(t.Context(), profile.Spec{Script: script.Name{Tenant: "other", Script: "s"}, Duration: time.Minute}, nil); shared != nil || err != nil {
		t.Errorf("a tenant without a process: %v, %v", shared, err)
	}
}
