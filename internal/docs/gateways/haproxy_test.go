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

// haproxy runs HAProxy with the page's configuration that has the words in it, changed, and with what it
// asks over SPOE, changed.
func (w *world) haproxy(words string, changed, spoe change) (address string) {
	w.t.Helper()
	address = porttest.Address(w.t)
	dir := w.t.TempDir()
	text, err := os.ReadFile(pages + "haproxy.md")
	if err != nil {
		w.t.Fatal(err)
	}
	config := changed(w.configured("haproxy.md", "haproxy", words, address))
	for name, content := range map[string]string{
		"haproxy.cfg":      strings.ReplaceAll(config, "/etc/haproxy", dir),
		"scriptorium.conf": spoe(w.patient(page.Blocks(string(text), "spoe")[0], "timeout processing 500ms", "timeout processing 2s")),
		"scriptorium.lua":  page.Blocks(string(text), "haproxylua")[0],

		"scriptorium-http.lua": w.patient(page.Blocks(string(text), "haproxyhttplua")[0], "timeout = 500", "timeout = 10000"),
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
	address := w.haproxy("lua.scriptorium_answer", asItIs, asItIs)
	w.conform(t, address, nil)
	w.table(t, address, "HAProxy")
	w.events(t, w.haproxy("lua.scriptorium_answer", asItIs, w.spoeEvent()), w.column(t, "HAProxy"))
	w.closed(t, address, w.column(t, "HAProxy"))
}

func TestHAProxyAsksWithoutLua(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.haproxy("lf-string", asItIs, asItIs)
	w.conform(t, address, func(x *exchange) {
		if x.name == "deny" {
			x.answer = "not you%0A"
		}
	})
	w.table(t, address, "HAProxy, without Lua")
	w.events(t, w.haproxy("lf-string", asItIs, w.spoeEvent()), w.column(t, "HAProxy, without Lua"))
	w.closed(t, address, w.column(t, "HAProxy, without Lua"))
}

// TestHAProxyDeniesWhatDoesNotFit: at once, and the connection to the agent goes on.
func TestHAProxyDeniesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, words := range []string{"lua.scriptorium_answer", "lua.scriptorium_decide"} {
		t.Run(words, func(t *testing.T) { w.deniesWhatDoesNotFit(t, w.haproxy(words, asItIs, asItIs)) })
	}
}

func (w *world) deniesWhatDoesNotFit(t *testing.T, address string) {
	t.Helper()
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
	address := w.haproxy("lua.scriptorium_answer", func(config string) string {
		return strings.ReplaceAll(config, "    default_backend app", target+"    default_backend app")
	}, asItIs)
	w.appliesAll(t, address)
}

// TestHAProxyAsksOverHTTP runs the configuration that does without SPOE.
func TestHAProxyAsksOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := w.haproxy("lua.scriptorium_decide", asItIs, asItIs)
	w.conform(t, address, nil)
	w.table(t, address, "HAProxy, over HTTP")
	w.appliesAll(t, address)
	byEvent := w.byEvent("http.sock acme/gate", "http.sock event=pre-route,key=request.cookies.user/acme")
	w.events(t, w.haproxy("lua.scriptorium_decide", byEvent, asItIs), w.column(t, "HAProxy, over HTTP"))
	w.closed(t, address, w.column(t, "HAProxy, over HTTP"))
}

// TestHAProxyActionFails: HAProxy goes on with the next rule then, which has to deny.
func TestHAProxyActionFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fault := filepath.Join(t.TempDir(), "fault.lua")
	if err := os.WriteFile(fault, []byte(`string.find = function() error("a fault") end`), 0o600); err != nil {
		t.Fatal(err)
	}
	address := w.haproxy("lua.scriptorium_decide", func(config string) string {
		return strings.Replace(config, "global\n", "global\n    lua-load "+fault+"\n", 1)
	}, asItIs)
	if err := w.exchange(t, address, exchange{target: "/shop", status: 503}); err != nil {
		t.Error(err)
	}
}
