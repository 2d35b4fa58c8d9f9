package gateways_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

func TestCaddyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := porttest.Address(t)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := "{\n\tadmin off\n}\n" + w.configured("caddy.md", "caddyfile", "forward_auth", address)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(address, "caddy", "run", "--adapter", "caddyfile", "--config", file)
	w.conform(t, address, nil)
	w.table(t, address, "Caddy")
	w.closed(t, address, w.column(t, "Caddy"))
}
