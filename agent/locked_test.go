package agent_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
)

// TestTwoAgentsOnOneStateFolder: the second one does not start, and says which process has the folder.
func TestTwoAgentsOnOneStateFolder(t *testing.T) {
	dir := t.TempDir()
	cfg := func() agent.Config {
		return agent.Config{
			Name: "node-1", Dir: dir, Registry: "unix:none.sock", NATS: []string{"nats://127.0.0.1:1"}, Trusted: seal.NewKeyring(publicOf(1)),
			Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		}
	}
	first, err := agent.Open(cfg())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Open(cfg()); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "a folder of its own") {
		t.Errorf("the second agent: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := agent.Open(cfg())
	if err != nil {
		t.Fatalf("once the first has ended: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
