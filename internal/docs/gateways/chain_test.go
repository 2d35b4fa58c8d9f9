package gateways_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// chainPath asks for the chain of the page.
const chainPath = "/v1/decide/event=pre-route/acme"

// newChain returns a world that has the chain of the page, too, and the manifest of its second script.
func newChain(t *testing.T) (w *world, admins string) {
	t.Helper()
	w = newWorld(t)
	text, err := os.ReadFile(pages + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"name: login", "name: admins"} {
		if admins, err = page.Find(page.Blocks(string(text), "yaml"), words); err != nil {
			t.Fatal(err)
		}
		w.publish(admins)
	}
	if !strings.Contains(string(text), "    "+chainPath+"\n") {
		t.Fatalf("the page does not have %s", chainPath)
	}
	return w, admins
}

// TestAChain: both scripts of the page decide, over the agent's HTTP socket, as they are after each change.
func TestAChain(t *testing.T) {
	t.Parallel()
	w, admins := newChain(t)
	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.sockets, "http.sock"))
	}}}
	defer web.CloseIdleConnections()
	ask := func(when, target, user string, status int, chain, got string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent"+chainPath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-Uri", target)
		req.Header.Set("X-User", "ann") // which is not true
		req.Header.Set("Cookie", "user="+user)
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != status || resp.Header.Get("Scriptorium-Chain") != chain || resp.Header.Get("X-User") != got {
			t.Errorf("%s, %s of %s: %d %s %v, want %d %q %q", when, target, user, resp.StatusCode, body, resp.Header, status, chain, got)
		}
	}
	ask("at first", "/shop", "bob", 200, "login@1", "bob")
	ask("at first", "/x/../admin?a=1", "ann", 200, "login@1, admins@1", "ann")
	ask("at first", "/admin/x", "bob", 403, "login@1, admins@1", "")
	ask("at first", "/admins", "bob", 200, "login@1", "bob")
	w.publish(strings.Replace(admins, "  trigger:\n", "  trigger:\n    priority: 11\n", 1))
	ask("with another priority", "/admin", "bob", 200, "admins@2, login@1", "bob")
	w.publish(strings.Replace(admins, "  tenantId:", "  enabled: false\n  tenantId:", 1))
	ask("without the second", "/admin", "bob", 200, "login@1", "bob")
}

// TestAChainBehindCaddy: the chain in the configuration of Caddy's page, where a client's query and
// headers choose nothing.
func TestAChainBehindCaddy(t *testing.T) {
	t.Parallel()
	w, _ := newChain(t)
	address := porttest.Address(t)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := "{\n\tadmin off\n}\n" + strings.Replace(w.configured("caddy.md", "caddyfile", "forward_auth", address), "/v1/decide/acme/gate", chainPath, 1)
	if !strings.Contains(config, chainPath) {
		t.Fatalf("the page does not ask for acme/gate:\n%s", config)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(address, "caddy", "run", "--adapter", "caddyfile", "--config", file)
	for _, x := range []exchange{
		{name: "one script", target: "/shop", headers: []string{"Cookie", "user=bob", "X-User", "ann"}, status: 200, answer: "GET /shop for bob: ", served: true},
		{name: "both", target: "/admin", headers: []string{"Cookie", "user=ann"}, status: 200, answer: "GET /admin for ann: ", served: true},
		{name: "the second denies", target: "/admin?event=other", headers: []string{"Cookie", "user=bob", "X-User", "ann"}, status: 403},
		{name: "a path that is not clean", target: "/x/..//%61dmin", headers: []string{"X-User", "ann"}, status: 403},
	} {
		if err := w.exchange(t, address, x); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
