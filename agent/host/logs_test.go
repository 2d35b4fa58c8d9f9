package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

func invocation(tenant, name string) *engine.Invocation {
	return &engine.Invocation{Tenant: tenant, Script: name, Version: 7, Limits: script.DefaultLimits()}
}

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestLineIsAttributed(t *testing.T) {
	var out logged
	h := newHost(t, host.Config{Log: slog.New(slog.NewJSONHandler(&out, nil))})
	for _, test := range []struct {
		level       engine.Level
		traceparent string
		want, trace string
	}{
		{engine.Info, traceparent, "INFO", traceID},
		{engine.Warn, "", "WARN", ""},
		{engine.Error, "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", "ERROR", ""},
		{engine.Info, "00-" + strings.ToUpper(traceID) + "-00f067aa0ba902b7-01", "INFO", ""},
		{engine.Info, "00-" + traceID, "INFO", ""},
		{engine.Info, "00-" + traceID + "x00f067aa0ba902b7-01", "INFO", ""},
	} {
		out.take()
		inv := invocation("acme", "edge")
		inv.Traceparent = test.traceparent
		h.Log(inv, test.level, `hello "you"`)
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", out.Bytes(), err)
		}
		trace, _ := got["trace_id"].(string)
		if got["level"] != test.want || got["msg"] != "a script says" || got["tenant"] != "acme" || got["script"] != "edge" ||
			got["version"] != 7.0 || got["text"] != `hello "you"` || trace != test.trace {
			t.Errorf("%s with %q: %s", test.level, test.traceparent, out.Bytes())
		}
	}
}

// logged is what was logged so far.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

// take returns what was logged since it was last taken.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.Reset()
	return l.String()
}

// flood logs n lines that count so many bytes, or as few as a line can, and returns how many
// came through.
func flood(h *host.Host, out *logged, inv *engine.Invocation, n, bytes int) int {
	out.take()
	message := strings.Repeat("x", max(bytes-h.Cost(inv, ""), 0))
	for range n {
		h.Log(inv, engine.Info, message)
	}
	return strings.Count(out.take(), "a script says")
}

func TestLinesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logged
		reg := prometheus.NewRegistry()
		h := newHost(t, host.Config{
			Log: slog.New(slog.NewTextHandler(&out, nil)), Metrics: reg,
			Tenants: func(tenant string) script.TenantSettings {
				if tenant == "small" {
					return script.TenantSettings{LogBytes: 2560}
				}
				return script.TenantSettings{}
			},
		})
		// 16 KiB a second by default.
		if n := flood(h, &out, invocation("acme", "noisy"), 1000, 1024); n != 16 {
			t.Errorf("%d lines of 1 KiB at once", n)
		}
		if n := flood(h, &out, invocation("acme", "noisy"), 1000, 0); n != 0 {
			t.Errorf("%d lines of nothing more", n)
		}
		if n := flood(h, &out, invocation("acme", "quiet"), 10, 1024); n != 10 {
			t.Errorf("another script of the tenant: %d of 10 lines", n)
		}
		if n := flood(h, &out, invocation("other", "noisy"), 10, 1024); n != 10 {
			t.Errorf("another tenant's: %d of 10 lines", n)
		}
		<-time.After(time.Second / 2)
		if n := flood(h, &out, invocation("acme", "noisy"), 1000, 1024); n != 8 {
			t.Errorf("%d lines of 1 KiB after half a second", n)
		}
		// All scripts of a tenant together.
		if n := flood(h, &out, invocation("small", "a"), 100, 256); n != 10 {
			t.Errorf("%d lines of the small tenant", n)
		}
		if n := flood(h, &out, invocation("small", "b"), 100, 256); n != 0 {
			t.Errorf("%d lines of the small tenant's other script", n)
		}
		// A line that is longer than what may be logged in a second comes through alone.
		<-time.After(time.Second)
		if n := flood(h, &out, invocation("small", "a"), 5, 4000); n != 1 {
			t.Errorf("%d lines that are longer than a second's worth", n)
		}
		if got := gathered(t, reg, "scriptorium_agent_log_lines_total")[""]; got != 55 {
			t.Errorf("%v lines are counted", got)
		}
	})
}

// TestDroppedLinesAreSaid wants one line a second of each tenant that loses some, however
// many scripts it has.
func TestDroppedLinesAreSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logged
		h := newHost(t, host.Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		flood(h, &out, invocation("acme", "edge"), 100, 1024)
		flood(h, &out, invocation("acme", "quiet"), 1, 10)
		out.take()
		<-time.After(3 * time.Second)
		synctest.Wait()
		said := out.take()
		if strings.Count(said, "lines were left out") != 1 || !strings.Contains(said, "tenant=acme lines=84 scripts=1 first=[edge]") {
			t.Errorf("it says\n%s", said)
		}
		for i := range 1000 {
			flood(h, &out, invocation("acme", fmt.Sprint("many-", i)), 20, 1024)
		}
		out.take()
		<-time.After(time.Second)
		synctest.Wait()
		said = out.take()
		if strings.Count(said, "lines were left out") != 1 || len(said) > 300 || !strings.Contains(said, "scripts=1000") {
			t.Errorf("of a thousand scripts it says\n%s", said)
		}
		<-time.After(time.Second)
		flood(h, &out, invocation("acme", "edge"), 20, 1024)
		out.take()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if said := out.take(); !strings.Contains(said, "lines=4") {
			t.Errorf("at its end it says\n%s", said)
		}
	})
}

func BenchmarkLogDiscarded(b *testing.B) {
	h := newHost(b, host.Config{})
	inv := invocation("acme", "edge")
	inv.Limits.LogBytes = 1 << 30
	message := strings.Repeat("x", 100)
	b.ReportAllocs()
	for b.Loop() {
		h.Log(inv, engine.Info, message)
	}
}
