package gateways_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// caddy runs Debian's Caddy with the page's configuration, changed.
func (w *world) caddy(changed change) (address string) {
	w.t.Helper()
	address = porttest.Address(w.t)
	file := filepath.Join(w.t.TempDir(), "Caddyfile")
	config := "{\n\tadmin off\n}\n" + changed(w.configured("caddy.md", "caddyfile", "forward_auth", address))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.run(address, "caddy", "run", "--adapter", "caddyfile", "--config", file)
	return address
}

func TestCaddyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.caddy(asItIs)
	w.conform(t, address, nil)
	w.table(t, address, "Caddy")
	w.events(t, w.caddy(w.httpEvent()), w.column(t, "Caddy"))
	w.closed(t, address, w.column(t, "Caddy"))
}
