package wasm_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/http-wasm/http-wasm-host-go/tck"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// gateway has a program decide about requests as gateways do, and sends those that go on to an upstream in this process.
type gateway struct {
	tb       testing.TB
	program  engine.Program
	upstream http.Handler
}

// ServeHTTP is http.Handler's.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := g.decide(r)
	if err != nil {
		g.tb.Errorf("%s %s: %v", r.Method, r.URL, err)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if !d.Allow {
		apply(w.Header(), d.Response)
		w.WriteHeader(d.Status)
		_, _ = io.WriteString(w, d.Body)
		return
	}
	apply(r.Header, d.Request)
	if d.Path != nil {
		r.RequestURI = *d.Path
		if d.Query != nil && *d.Query != "" {
			r.RequestURI += "?" + *d.Query
		}
		if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
			g.tb.Error(err)
		}
	}
	back := httptest.NewRecorder()
	g.upstream.ServeHTTP(back, r)
	for name, values := range back.Header() {
		w.Header()[name] = values
	}
	apply(w.Header(), d.Response)
	w.WriteHeader(back.Code)
	_, _ = w.Write(back.Body.Bytes())
}

func (g *gateway) decide(r *http.Request) (decision.Decision, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return decision.Decision{}, err
	}
	ip, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return decision.Decision{}, err
	}
	q := decision.Request{
		Method: r.Method, Scheme: "http", Host: r.Host, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Headers: r.Header,
		RemoteAddr: ip, Body: body, HasBody: true,
	}
	inv := invocation(string(q.Argument(nil, "acme")))
	inv.Limits = script.MaxLimits()
	var res engine.Result
	if err := g.program.Run(r.Context(), inv, &res); err != nil {
		return decision.Decision{}, err
	}
	return decision.Parse(res.Value(0))
}

func apply(to http.Header, c decision.Changes) {
	for _, name := range c.Remove {
		to.Del(name)
	}
	for _, h := range c.Set {
		to.Set(h.Name, h.Value)
	}
	for _, h := range c.Append {
		to.Add(h.Name, h.Value)
	}
}

// TestHTTPWasmKit runs the compatibility kit of http-wasm against the decisions of its guest, which are parsed as those of
// all gateways. The kit cannot leave out tests, so it runs in a process that can.
func TestHTTPWasmKit(t *testing.T) {
	const runner = "SCRIPTORIUM_TEST_HTTPWASM_KIT"
	if os.Getenv(runner) != "" {
		p := compile(t, newEngine(t), tck.GuestWASM, true)
		server := httptest.NewServer(&gateway{tb: t, program: p, upstream: tck.BackendHandler()})
		t.Cleanup(server.Close) // the kit's tests run when this function has returned
		tck.Run(t, server.Client(), server.URL)
		return
	}
	// A decision cannot change the method, and the other one's guest makes a response and lets the request go on.
	const unmet = "^TestHTTPWasmKit$/^(set_method|get_protocol_version)$"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run=^TestHTTPWasmKit$", "-test.skip="+unmet)
	cmd.Env = append(os.Environ(), runner+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const tests = 33 // of the kit's 35
	if got := strings.Count(string(out), "    --- PASS: TestHTTPWasmKit/"); got != tests {
		t.Errorf("%d tests of the kit have passed, want %d\n%s", got, tests, out)
	}
}
