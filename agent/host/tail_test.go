package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// reader is who reads along.
type reader struct {
	mu    sync.Mutex
	sent  []*eventv1.Logs
	fails error
}

func (r *reader) send(m *eventv1.Logs) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return r.fails
	}
	r.sent = append(r.sent, m)
	return nil
}

// read returns the messages of all lines since it was last asked, and how many were
// dropped.
func (r *reader) read() (lines []*eventv1.LogLine, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.sent {
		lines = append(lines, m.GetLines()...)
		dropped += m.GetDropped()
	}
	r.sent = nil
	return lines, dropped
}

// wait lets synctest's clock go on.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// tailed runs test beside a host that sends to r.
func tailed(t *testing.T, test func(t *testing.T, h *host.Host, r *reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		h := newHost(t, host.Config{
			Send:    r.send,
			Tenants: func(string) script.TenantSettings { return script.TenantSettings{LogBytes: 1 << 30} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		test(t, h, r)
	})
}

func loud(tenant, name string) *engine.Invocation {
	inv := invocation(tenant, name)
	inv.Limits.LogBytes = 1 << 30
	return inv
}

func TestTail(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		h.Log(loud("acme", "edge"), engine.Info, "before")
		h.Tail("fleet", "acme", "edge", time.Now().Add(10*time.Second))
		inv := loud("acme", "edge")
		inv.Traceparent = traceparent
		h.Log(inv, engine.Warn, "hello")
		h.Log(loud("acme", "other"), engine.Info, "another script's")
		h.Log(loud("globex", "edge"), engine.Info, "another tenant's")
		at := time.Now()
		wait(100 * time.Millisecond)
		if len(r.sent) != 1 || r.sent[0].GetFleet() != "fleet" || r.sent[0].GetAgent() != "node-1" {
			t.Fatalf("sent %v", r.sent)
		}
		lines, dropped := r.read()
		if len(lines) != 1 || dropped != 0 {
			t.Fatalf("%d lines, %d dropped: %v", len(lines), dropped, lines)
		}
		got := lines[0]
		if got.GetTenant() != "acme" || got.GetName() != "edge" || got.GetVersion() != 7 || got.GetLevel() != "warn" ||
			got.GetMessage() != "hello" || got.GetTraceId() != traceID || !got.GetTime().AsTime().Equal(at) {
			t.Errorf("line %v", got)
		}
		wait(9 * time.Second)
		h.Log(loud("acme", "edge"), engine.Info, "still")
		wait(time.Second)
		h.Log(loud("acme", "edge"), engine.Info, "too late")
		wait(time.Second)
		if lines, _ := r.read(); len(lines) != 1 || lines[0].GetMessage() != "still" {
			t.Errorf("then %v", lines)
		}
	})
}

func TestTailOfTenant(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		h.Tail("fleet", "acme", "", time.Now().Add(time.Second))
		h.Tail("fleet", "acme", "", time.Now()) // does not end it
		h.Log(loud("acme", "a"), engine.Info, "1")
		h.Log(loud("acme", "b"), engine.Info, "2")
		h.Log(loud("globex", "a"), engine.Info, "3")
		wait(time.Second)
		if lines, _ := r.read(); len(lines) != 2 {
			t.Errorf("lines %v", lines)
		}
	})
}

// TestTailIsNotForLong asks for an hour.
func TestTailIsNotForLong(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		h.Tail("fleet", "acme", "", time.Now().Add(time.Hour))
		wait(time.Minute)
		h.Log(loud("acme", "a"), engine.Info, "x")
		wait(time.Second)
		if lines, _ := r.read(); len(lines) != 0 {
			t.Errorf("lines %v", lines)
		}
	})
}

// TestTooManyTails: those that are there go on.
func TestTooManyTails(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		for i := range 1000 {
			h.Tail("fleet", fmt.Sprint("tenant-", i), "", time.Now().Add(time.Second))
		}
		for i := range 1000 {
			h.Log(loud(fmt.Sprint("tenant-", i), "a"), engine.Info, "x")
		}
		wait(time.Second)
		if lines, _ := r.read(); len(lines) != 256 {
			t.Errorf("%d lines", len(lines))
		}
		h.Tail("fleet", "late", "", time.Now().Add(time.Second)) // in place of those that have ended
		h.Log(loud("late", "a"), engine.Info, "x")
		wait(time.Second)
		if lines, _ := r.read(); len(lines) != 1 {
			t.Errorf("%d lines once the others have ended", len(lines))
		}
	})
}

// TestBatches logs without pause: lines come in time, in order, and in messages that
// are not too large.
func TestBatches(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		h.Tail("fleet", "acme", "", time.Now().Add(time.Minute))
		const each = 20 // milliseconds between two lines
		for i := range 100 {
			h.Log(loud("acme", "a"), engine.Info, fmt.Sprintf("%03d %s", i, strings.Repeat("x", 1000)))
			wait(each * time.Millisecond)
		}
		if len(r.sent) < 15 {
			t.Errorf("%d messages in two seconds", len(r.sent))
		}
		wait(time.Second)
		for range 200 {
			h.Log(loud("acme", "a"), engine.Info, strings.Repeat("y", 1000))
		}
		wait(time.Second)
		for _, m := range r.sent {
			if size := proto.Size(m); size > 64<<10 {
				t.Errorf("a message of %d bytes", size)
			}
		}
		lines, dropped := r.read()
		if len(lines) != 300 || dropped != 0 {
			t.Fatalf("%d lines, %d dropped", len(lines), dropped)
		}
		for i := range 100 {
			if !strings.HasPrefix(lines[i].GetMessage(), fmt.Sprintf("%03d ", i)) {
				t.Fatalf("line %d is %.10s", i, lines[i].GetMessage())
			}
		}
	})
}

// TestQueueIsBounded logs far more than can be sent.
func TestQueueIsBounded(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		h.Tail("fleet", "acme", "", time.Now().Add(time.Minute))
		const all = 5000
		for range all {
			h.Log(loud("acme", "a"), engine.Info, strings.Repeat("x", 1000))
		}
		wait(time.Second)
		lines, dropped := r.read()
		if len(lines)+int(dropped) != all || len(lines) > 256 || len(lines) < 100 {
			t.Errorf("%d lines, %d dropped", len(lines), dropped)
		}
	})
}

// kibibyte is the message of a line of acme/edge that counts 1 KiB.
func kibibyte(h *host.Host) string {
	return strings.Repeat("x", 1024-h.Cost(invocation("acme", "edge"), ""))
}

// TestDroppedByLimitIsTold: a reader knows that lines are missing.
func TestDroppedByLimitIsTold(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		h.Tail("fleet", "acme", "edge", time.Now().Add(time.Minute))
		for range 100 {
			h.Log(invocation("acme", "edge"), engine.Info, kibibyte(h))
			h.Log(invocation("acme", "other"), engine.Info, kibibyte(h))
		}
		wait(time.Second)
		if lines, dropped := r.read(); len(lines) != 16 || dropped != 84 {
			t.Errorf("%d lines, %d dropped", len(lines), dropped)
		}
	})
}

// TestDroppedIsToldByScript, also when no line comes with it.
func TestDroppedIsToldByScript(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		for range 20 { // it has then logged all that it may
			h.Log(invocation("acme", "edge"), engine.Info, kibibyte(h))
		}
		h.Tail("fleet", "acme", "edge", time.Now().Add(time.Minute))
		h.Tail("fleet", "globex", "", time.Now().Add(time.Minute))
		for range 7 {
			h.Log(invocation("acme", "edge"), engine.Info, strings.Repeat("x", 15<<10))
		}
		wait(200 * time.Millisecond)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.sent) != 1 || len(r.sent[0].GetLines()) != 0 || len(r.sent[0].GetDroppedOf()) != 1 {
			t.Fatalf("sent %v", r.sent)
		}
		if d := r.sent[0].GetDroppedOf()[0]; d.GetTenant() != "acme" || d.GetName() != "edge" || d.GetCount() != 7 || r.sent[0].GetDropped() != 7 {
			t.Errorf("told %v", r.sent[0])
		}
	})
}

// TestOneTenantsTails do not take others' room.
func TestOneTenantsTails(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		for i := range 1000 {
			h.Tail("fleet", "acme", fmt.Sprint("s", i), time.Now().Add(time.Minute))
		}
		h.Tail("fleet", "globex", "", time.Now().Add(time.Minute))
		for i := range 1000 {
			h.Log(loud("acme", fmt.Sprint("s", i)), engine.Info, "x")
		}
		h.Log(loud("globex", "a"), engine.Info, "y")
		wait(time.Second)
		if lines, _ := r.read(); len(lines) != 17 {
			t.Errorf("%d lines, want 16 and the other tenant's", len(lines))
		}
	})
}

func TestSendFails(t *testing.T) {
	tailed(t, func(t *testing.T, h *host.Host, r *reader) {
		t.Helper()
		r.fails = errors.New("NATS is gone")
		h.Tail("fleet", "acme", "", time.Now().Add(time.Minute))
		for range 3 {
			h.Log(loud("acme", "a"), engine.Info, "lost")
		}
		wait(time.Second)
		r.mu.Lock()
		r.fails = nil
		r.mu.Unlock()
		h.Log(loud("acme", "a"), engine.Info, "there")
		wait(time.Second)
		if lines, dropped := r.read(); len(lines) != 1 || dropped != 3 {
			t.Errorf("%d lines, %d dropped", len(lines), dropped)
		}
	})
}

// TestSendHangs: what logs does not wait for who reads along.
func TestSendHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := newHost(t, host.Config{Send: func(*eventv1.Logs) error {
			<-free
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		h.Tail("fleet", "acme", "", time.Now().Add(time.Minute))
		for range 1000 {
			h.Log(loud("acme", "a"), engine.Info, "x")
			wait(time.Millisecond)
		}
		close(free)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
