package gateways_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/script"
)

// chainPath asks for the chain of the page.
const chainPath = "/v1/decide/event=pre-route/acme"

// chainOf returns the manifests of the chain of the page.
func chainOf(t *testing.T) (login, admins string) {
	t.Helper()
	text, err := os.ReadFile(pages + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	for words, manifest := range map[string]*string{"name: login": &login, "name: admins": &admins} {
		if *manifest, err = page.Find(page.Blocks(string(text), "yaml"), words); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), "    "+chainPath+"\n") {
		t.Fatalf("the page does not have %s", chainPath)
	}
	return login, admins
}

// TestAChain: both scripts of the page decide, over the agent's HTTP socket, as they are after each change.
func TestAChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	login, admins := chainOf(t)
	w.publish(login)
	w.publish(admins)
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

// byEvent returns a change to a configuration that asks for the script of the pages: it asks for the chain
// of README.md, and names the cookie as the key of a rollout. Pairs are what stands in the configuration, and
// what README.md has there.
func (w *world) byEvent(pairs ...string) change {
	return func(config string) string {
		w.t.Helper()
		text, err := os.ReadFile(pages + "README.md")
		if err != nil {
			w.t.Fatal(err)
		}
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(string(text), pairs[i+1]) {
				w.t.Errorf("the page does not show %s", pairs[i+1])
			}
			if !strings.Contains(config, pairs[i]) {
				w.t.Fatalf("the configuration has no %s:\n%s", pairs[i], config)
			}
			config = strings.ReplaceAll(config, pairs[i], pairs[i+1])
		}
		return config
	}
}

// httpEvent is byEvent for gateways that ask over HTTP.
func (w *world) httpEvent() change {
	return w.byEvent("/v1/decide/acme/gate", "/v1/decide/event=pre-route,key=request.cookies.user/acme")
}

// events checks the rows about chains and rollouts by key, at a gateway that asks for the chain of README.md,
// and names the cookie as the key.
func (w *world) events(t *testing.T, address string, cells map[string]string) {
	t.Helper()
	missing, err := strconv.Atoi(cells["the script is missing"])
	if err != nil {
		t.Errorf("the table has no status for a missing script: %v", err)
	}
	if err := w.exchange(t, address, exchange{target: "/shop", status: missing}); err != nil {
		t.Errorf("no script has the event: %v", err)
	}
	login, admins := chainOf(t)
	w.publish(login)
	w.publish(admins)
	row := func(name string, exchanges []exchange) {
		t.Helper()
		var errs []error
		for _, x := range exchanges {
			if err := w.exchange(t, address, x); err != nil {
				errs = append(errs, fmt.Errorf("%s with %v: %w", x.target, x.headers, err))
			}
		}
		if got := yes(len(errs) == 0); got != cells[name] {
			t.Errorf("the table says %q of %q, want %q: %v", cells[name], name, got, errors.Join(errs...))
		}
	}
	row("have a chain of scripts decide", chained())
	next := strings.Replace(login, `request.cookies.user or ""`, `(request.cookies.user or "") .. "+2"`, 1)
	next = strings.Replace(next, "  trigger:", "  rollout: {steps: [{percent: 50, by: key, pause: 1h}]}\n  trigger:", 1)
	row("give a user the same version in a rollout", sticky(w.publish(next)))
}

// sticky are what users get of a chain with a candidate for half of the keys, which writes its number behind
// the user. No header makes a client another user.
func sticky(candidate script.Ref) (exchanges []exchange) {
	versions := map[string]bool{}
	for i := range 16 {
		user, version := fmt.Sprint("user-", i), ""
		if cache.KeyBucket(candidate.String(), user) < script.KeyThreshold(50) {
			version = "+2"
		}
		versions[version] = true
		for _, forged := range []string{"user-0", "user-1"} {
			exchanges = append(exchanges, exchange{
				target: "/shop?key=" + forged, headers: []string{"Cookie", "user=" + user, "Scriptorium-Key", forged, "Scriptorium-Version", "1"},
				status: 200, answer: "GET /shop?key=" + forged + " for " + user + version + ": ", served: true,
			})
		}
	}
	if len(versions) != 2 {
		panic("these users have the same version: choose others")
	}
	return append(exchanges, exchange{target: "/shop", status: 200, answer: "GET /shop for : ", served: true}) // no key
}

// chained are what clients get of the chain of README.md. The second script denies by a header of the first.
func chained() []exchange {
	return []exchange{
		{target: "/shop", headers: []string{"Cookie", "user=bob", "X-User", "ann"}, status: 200, answer: "GET /shop for bob: ", served: true},
		{target: "/admin", headers: []string{"Cookie", "user=ann"}, status: 200, answer: "GET /admin for ann: ", served: true},
		{target: "/admin?event=other", headers: []string{"Cookie", "user=bob", "X-User", "ann"}, status: 403},
		{target: "/x/..//%61dmin", headers: []string{"X-User", "ann"}, status: 403},
	}
}
