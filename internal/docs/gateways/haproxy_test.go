package gateways_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// haproxy runs HAProxy with the page's configuration that has the words in it, with lines before
// its default_backend, and a change to what it asks the agent.
func (w *world) haproxy(words, lines string, asks change) (address string) {
	w.t.Helper()
	address = porttest.Address(w.t)
	dir := w.t.TempDir()
	text, err := os.ReadFile(pages + "haproxy.md")
	if err != nil {
		w.t.Fatal(err)
	}
	config := w.configured("haproxy.md", "haproxy", words, address)
	config = strings.ReplaceAll(config, "    default_backend app", lines+"    default_backend app")
	for name, content := range map[string]string{
		"haproxy.cfg":      strings.ReplaceAll(config, "/etc/haproxy", dir),
		"scriptorium.conf": asks(w.patient(page.Blocks(string(text), "spoe")[0], "timeout processing 500ms", "timeout processing 2s")),
		"scriptorium.lua":  page.Blocks(string(text), "haproxylua")[0],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.run(address, "haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	return address
}

// spoeEvent has HAProxy ask for the chain.
func (w *world) spoeEvent() change {
	return w.byEvent("script=str(acme/gate)", "event=str(pre-route) tenant=str(acme) key=req.cook(user)")
}

func TestHAProxyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.haproxy("lua.scriptorium_answer", "", asItIs)
	w.conform(t, address, nil)
	w.table(t, address, "HAProxy")
	w.events(t, w.haproxy("lua.scriptorium_answer", "", w.spoeEvent()), w.column(t, "HAProxy"))
	w.closed(t, address, w.column(t, "HAProxy"))
}

func TestHAProxyAsksWithoutLua(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.haproxy("lf-string", "", asItIs)
	w.conform(t, address, func(x *exchange) {
		if x.name == "deny" {
			x.answer = "not you%0A"
		}
	})
	w.table(t, address, "HAProxy, without Lua")
	w.events(t, w.haproxy("lf-string", "", w.spoeEvent()), w.column(t, "HAProxy, without Lua"))
	w.closed(t, address, w.column(t, "HAProxy, without Lua"))
}

// TestHAProxyDeniesWhatDoesNotFit: at once, and the connection to the agent goes on.
func TestHAProxyDeniesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.haproxy("lua.scriptorium_answer", "", asItIs)
	for range 10 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = strings.Repeat("a", 8400) // the agent gets it twice
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Scriptorium-Reason") != "AGENT" {
			t.Errorf("%s %v", resp.Status, resp.Header)
		}
		if err := w.exchange(t, address, exchange{target: "/shop", status: 200, served: true}); err != nil {
			t.Error(err)
		}
	}
}

// TestHAProxyAppliesAll: any status, headers of any name, and another target.
func TestHAProxyAppliesAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile(pages + "haproxy.md")
	if err != nil {
		t.Fatal(err)
	}
	target, err := page.Find(page.Blocks(string(text), "haproxy"), "set-path")
	if err != nil {
		t.Fatal(err)
	}
	address := w.haproxy("lua.scriptorium_answer", target, asItIs)
	w.appliesAll(t, address)
}
