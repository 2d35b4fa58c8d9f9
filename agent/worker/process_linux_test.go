package worker

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/worker/confine"
)

// descriptors returns how many this process has.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestProcessesThatDoNotGetReady leave nothing behind.
func TestProcessesThatDoNotGetReady(t *testing.T) {
	p, err := New(Config{
		Node:    Node{Table: cache.NewTable(), Tenants: cache.NewTenants()},
		Command: []string{"-test.list=^$"}, // this binary, which then ends at once
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := p.host
	if h.starter, err = confine.NewStarter(false); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	start := func() {
		if _, err := h.start(); err == nil {
			t.Fatal("it is ready")
		}
	}
	start()
	const times = 20
	before := descriptors(t)
	for range times {
		start()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for descriptors(t) >= before+times { // connections end a moment later
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d descriptors, and %d after %d processes", before, descriptors(t), times)
		}
	}
}
