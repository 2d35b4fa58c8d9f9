package follow_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// What has become of candidates is reported as soon as it is known, and calls with the
// next status.
func TestAStatusTellsTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1).unsigned()
		n := newNode(w, "n")
		cfg := n.config(1)
		var trials atomic.Pointer[[]follow.Trial]
		trials.Store(&[]follow.Trial{})
		cfg.Trials = func() []follow.Trial { return *trials.Load() }
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
		pass(10 * time.Second)
		status := func() *eventv1.Status {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.status
		}
		if got := status().GetTrials(); len(got) != 0 {
			t.Errorf("without candidates: %v", got)
		}
		running := follow.Trial{Key: "releases/acme/a", Version: 2, Attempt: 7, Tested: true, Calls: 3, FailedCalls: 1, ProcessEnded: true}
		trials.Store(&[]follow.Trial{running, {Key: "releases/acme/b", Version: 3, Attempt: 9, Tested: true, Err: &script.Error{
			Kind: script.Script, Field: "tests[t]", Message: "want 1, got 2",
		}}, {Key: "releases/acme/c", Version: 3, Attempt: 9, Waiting: script.Errorf(script.Overloaded, "tests[t]", "busy %s\xff", strings.Repeat("long ", 200))}})
		f.TrialsChanged()
		pass(150 * time.Millisecond)
		got := status().GetTrials()
		if len(got) != 3 {
			t.Fatalf("told: %v", got)
		}
		if c := got[2]; c.GetTested() || c.GetError() != nil || !strings.HasPrefix(c.GetWaiting(), "tests[t]: busy long long") || len(c.GetWaiting()) > 200 {
			t.Errorf("told: %v", c)
		}
		if a := got[0]; a.GetKey() != running.Key || a.GetVersion() != 2 || a.GetAttempt() != 7 || !a.GetTested() || a.GetError() != nil || a.GetCalls() != 3 || a.GetFailedCalls() != 1 || !a.GetProcessEnded() {
			t.Errorf("told: %v", a)
		}
		if e := got[1].GetError(); e.GetKind() != "SCRIPT" || e.GetField() != "tests[t]" || e.GetMessage() != "want 1, got 2" {
			t.Errorf("told: %v", got[1])
		}
		running.Calls = 40
		trials.Store(&[]follow.Trial{running})
		pass(6 * time.Second)
		if got := status().GetTrials(); len(got) != 1 || got[0].GetCalls() != 40 {
			t.Errorf("later: %v", got)
		}

		// As many and as long as there can be, they can be sent.
		var many []follow.Trial
		for i := range 3000 {
			many = append(many, follow.Trial{
				Key: fmt.Sprintf("releases/%063d/%063d", 1, i), Version: 1 << 60, Attempt: 1 << 60, Tested: true, Calls: 1 << 60,
				Err: &script.Error{Kind: script.Script, Field: "tests[" + strings.Repeat("x", script.MaxTestNameBytes) + "]", Message: strings.Repeat("é", 5000)},
			})
		}
		trials.Store(&many)
		failing := map[string]string{}
		for i := range 300 {
			failing[fmt.Sprintf("%063d", i)] = "bad " + strings.Repeat("x", 5000)
		}
		w.commit(failing)
		lagging := map[string]script.Revision{}
		for i := range 1100 {
			lagging[fmt.Sprintf("%063d", i)] = math.MaxInt64
		}
		lags.Store(&lagging)
		f.TrialsChanged()
		pass(time.Second)
		last := status()
		if size := proto.Size(last); len(last.GetTrials()) != follow.MaxTrials || len(last.GetFailures()) != 256 || len(last.GetLags()) != 1024 || size > 1<<20-4096 {
			t.Errorf("a status has %d trials, %d failures and %d lags in %d bytes", len(last.GetTrials()), len(last.GetFailures()), len(last.GetLags()), size)
		}

		// So can what a process of a tenant says it has counted.
		for i := range many {
			buckets := make([]uint64, script.LatencyBuckets)
			for b := range buckets {
				buckets[b] = math.MaxUint64 - uint64(b)
				if i%2 == 0 {
					buckets[b] = script.MaxStepCalls / script.LatencyBuckets
				}
			}
			many[i].StepCalls = &script.StepCalls{Step: 1, Buckets: buckets, FailedCalls: 1}
			if i%4 > 1 {
				many[i].Err = nil
			}
		}
		trials.Store(&many)
		f.TrialsChanged()
		pass(time.Second)
		last = status()
		if size := proto.Size(last); len(last.GetTrials()) != follow.MaxTrials || size > 1<<20-4096 {
			t.Errorf("a status has %d trials with calls of steps in %d bytes", len(last.GetTrials()), size)
		}
		usual := &script.StepCalls{Step: 1, First: 40, Buckets: slices.Repeat([]uint64{1000}, 8*12)} // twelve powers of two
		for i := range many {
			many[i].Err, many[i].StepCalls = nil, usual
		}
		trials.Store(&many)
		f.TrialsChanged()
		pass(time.Second)
		for _, m := range status().GetTrials() {
			if c := m.GetStepCalls(); len(c.GetBuckets()) != len(usual.Buckets) {
				t.Fatalf("calls of a step: %v", c)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
