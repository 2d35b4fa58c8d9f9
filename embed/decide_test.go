package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/embed"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// features decides by the path.
const features = `function handle(request)
  local path = request.path
  if path == "/status" then return { allow = false, status = 418 } end
  if path == "/respond" then return { allow = false, status = 200, body = "from the script\n" } end
  if path == "/redirect" then return { redirect = "/login", status = 307 } end
  if path == "/headers" then
    return { headers = { set = { ["x-user"] = "ann" }, append = { ["x-user"] = "bob", ["x-more"] = "1" }, remove = { "x-gone" } } }
  end
  if path == "/response" then
    return { response_headers = { set = { ["x-answer"] = "42" }, append = { ["x-answer"] = "43" }, remove = { "x-app" } }, cookies = { { name = "seen", value = "1" } } }
  end
  if path == "/rewrite" then return { path = "/oth%2Fer", query = "q=1", upstream = "canary", metadata = { a = { 1 } } } end
  if path == "/misspelled" then return { alow = false } end
  if path == "/fails" then error("a fault") end
  if path == "/slow" then while true do end end
  for _, name in ipairs({ "for", "host", "proto" }) do request.headers["x-forwarded-" .. name] = nil end
  return { allow = false, status = 403, body = json.encode(request) }
end`

// deciders are an agent in this process, and one over its socket. Both run the scripts.
func deciders(t *testing.T, scripts map[string]string) (w *localtest.World, a *embed.Agent, both map[string]middleware.Decider) {
	t.Helper()
	w = localtest.Start(t, 1)
	a = w.Embed(t, "shop")
	for name, source := range scripts {
		w.Publish(t, localtest.Manifest(name, source), 2)
	}
	socket := middleware.NewSocket(filepath.Join(w.Stack.AgentDir(1), "http.sock"))
	t.Cleanup(socket.Close)
	return w, a, map[string]middleware.Decider{"embedded": a, "socket": socket}
}

// TestTargetsAreTheSame: a rule names the scripts of an event, and the key in a rollout by key, in a
// program and over http.sock alike.
func TestTargetsAreTheSame(t *testing.T) {
	w, _, both := deciders(t, nil)
	const auth = `function handle(r) return { headers = { set = { ["x-user"] = "changed" } } } end`
	trigger := func(priority int) string { return fmt.Sprintf("  trigger: {event: pre, priority: %d}\n", priority) }
	w.Publish(t, localtest.Manifest("auth", auth)+trigger(10), 2)
	w.Publish(t, localtest.Manifest("gate", `function handle(r) return { allow = false, status = 401 } end`)+trigger(0), 2)
	w.Publish(t, localtest.Manifest("gate", `function handle(r) return { allow = false, status = 402 } end`)+trigger(0)+
		"  rollout:\n    steps: [{percent: 50, by: key, pause: 1h}]\n", 0)
	decide := func(decider middleware.Decider, rule middleware.Rule, user string) *middleware.Decision {
		gate, err := middleware.New(decider, rule)
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.example/", http.NoBody)
		req.Header.Set("X-User", user)
		return gate.Decide(httptest.NewRecorder(), req, "192.0.2.7")
	}
	keyed := middleware.Rule{Script: "acme/gate", Key: "request.headers.X-User"}
	inside := func(user string) bool { return cache.KeyBucket("acme/gate@2", user) < script.KeyThreshold(50) }
	known := ""
	for i := 0; known == ""; i++ {
		if user := fmt.Sprint("user-", i); inside(user) {
			known = user
		}
	}
	for name, decider := range both { // each agent begins by itself
		ctx, cancel := context.WithTimeout(t.Context(), localtest.Patience)
		for decide(decider, keyed, known).Status != 402 && ctx.Err() == nil { // it tries again at once
		}
		if cancel(); decide(decider, keyed, known).Status != 402 {
			t.Fatalf("%s: nobody gets the candidate", name)
		}
	}
	for name, decider := range both {
		for i := range 20 {
			user := fmt.Sprint("user-", i)
			status, chain := 401, "auth@1, gate@1"
			if inside(user) {
				status, chain = 402, "auth@1, gate@2"
			}
			if d := decide(decider, keyed, user); d.Status != status || d.Chain != "" {
				t.Errorf("%s: %s gets %d (%q), want %d", name, user, d.Status, d.Chain, status)
			}
			if d := decide(decider, middleware.Rule{Script: "event=pre/acme", Key: keyed.Key}, user); d.Status != status || d.Chain != chain {
				t.Errorf("%s: %s gets %d of %q, want %d of %q", name, user, d.Status, d.Chain, status, chain)
			}
		}
		if d := decide(decider, middleware.Rule{Script: "acme/gate"}, known); d.Status != 401 {
			t.Errorf("%s: without a key: %d", name, d.Status)
		}
		if d := decide(decider, middleware.Rule{Script: "event=post/acme"}, known); d.Allow || d.Reason != string(script.NotFound) {
			t.Errorf("%s: an event of no script: %+v", name, d)
		}
	}
}

// TestDecisionsAreTheSame in a program and over http.sock, whatever a client asks for.
func TestDecisionsAreTheSame(t *testing.T) {
	w, _, both := deciders(t, map[string]string{"gate": features})
	requests := []struct {
		method, target, body string
		headers              []string
	}{
		{"GET", "/status", "", nil},
		{"GET", "/respond", "", nil},
		{"GET", "/redirect", "", nil},
		{"GET", "/headers", "", nil},
		{"GET", "/response", "", nil},
		{"GET", "/rewrite", "", nil},
		{"GET", "/misspelled", "", nil},
		{"GET", "/fails", "", nil},
		{"GET", "/slow", "", nil},
		{"PUT", "/x/..//%61dmin/?a=b%20c&fail=open", "hello", []string{"X-Odd", `a"b\'`, "Cookie", "user=ann", "X-Tag", "1", "X-Tag", "2"}},
		{"GET", "/", "", []string{"X-Forwarded-Uri", "/shop", "X-Forwarded-Method", "PUT", "X-Original-URI", "/y", "X-Forwarded-Proto", "https"}},
		{"GET", "/", "", []string{"Scriptorium-Path", "/x", "scriptorium_version", "7", "Connection", "close", "Te", "trailers"}},
		{"POST", "/", "\xff\x00", []string{"X-Bytes", "\xff"}},
		{"OPTIONS", "/%2e%2e/a%3fb", "", nil},
	}
	for _, fail := range []string{"", "closed", "open"} {
		for _, r := range requests {
			rule := middleware.Rule{Script: "acme/gate", Fail: fail, Body: 1 << 10, Params: map[string]string{"env": "prod/eu west"}}
			told := map[string]string{}
			for name, decider := range both {
				gate, err := middleware.New(decider, rule)
				if err != nil {
					t.Fatal(err)
				}
				req := httptest.NewRequestWithContext(t.Context(), r.method, "http://shop.example"+r.target, strings.NewReader(r.body))
				for i := 0; i < len(r.headers); i += 2 {
					req.Header.Add(r.headers[i], r.headers[i+1])
				}
				text, err := json.Marshal(gate.Decide(httptest.NewRecorder(), req, "192.0.2.7"))
				if err != nil {
					t.Fatal(err)
				}
				told[name] = strings.ReplaceAll(string(text), string(script.Timeout), string(script.Limit)) // of /slow, either comes first
			}
			if diff := cmp.Diff(told["socket"], told["embedded"]); diff != "" {
				t.Errorf("%s %s, fail %q: over the socket and embedded:\n%s", r.method, r.target, fail, diff)
			}
		}
	}
	if err := w.Stack.StopAgent(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for fail, allow := range map[string]bool{"": false, "closed": false, "open": true} {
		gate, _ := middleware.New(both["socket"], middleware.Rule{Script: "acme/gate", Fail: fail})
		d := gate.Decide(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/headers", nil), "192.0.2.7")
		if d.Allow != allow || d.Reason != string(script.Unavailable) || !allow && d.Status != 503 {
			t.Errorf("the agent is gone, fail %q: %+v", fail, d)
		}
	}
	if err := w.Stack.StartAgent(1); err != nil {
		t.Fatal(err)
	}
	gate, _ := middleware.New(both["socket"], middleware.Rule{Script: "acme/gate"})
	if d := gate.Decide(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/headers", nil), "192.0.2.7"); d.Version == 0 {
		t.Errorf("the agent is back: %+v", d)
	}
}

// TestLargeRequests do not open a gate that fails open: a client could send one on purpose.
func TestLargeRequests(t *testing.T) {
	_, _, both := deciders(t, map[string]string{"gate": `function handle(request)
  return { allow = false, status = 403, body = tostring(#request.body) .. " " .. tostring(#(request.headers["x-long"] or "")) }
end`})
	for name, decider := range both {
		gate, err := middleware.New(decider, middleware.Rule{Script: "acme/gate", Fail: middleware.FailOpen, Body: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 40 << 10, 900 << 10} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/x", strings.NewReader(strings.Repeat("x", n)))
			if d := gate.Decide(httptest.NewRecorder(), r, "192.0.2.7"); d.Allow || d.Status != 403 || d.Body != strconv.Itoa(n)+" 0" {
				t.Errorf("%s, a body of %d bytes: %.200v", name, n, d)
			}
			r = httptest.NewRequestWithContext(t.Context(), "POST", "/x", strings.NewReader("x"))
			r.Header.Set("X-Long", strings.Repeat("x", n))
			if d := gate.Decide(httptest.NewRecorder(), r, "192.0.2.7"); d.Allow {
				t.Errorf("%s, a header of %d bytes: %.200v", name, n, d)
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/x", nil)
		r.Header.Set("X-Odd", "a\nb")
		if d := gate.Decide(httptest.NewRecorder(), r, "192.0.2.7"); d.Allow && name == "socket" {
			t.Errorf("%s, a header that cannot be: %v", name, d)
		}
	}
}

// TestHandler makes of decisions what clients and the application get.
func TestHandler(t *testing.T) {
	_, _, both := deciders(t, map[string]string{"gate": features})
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-App", "yes")
		w.Header().Set("X-Answer", "0")
		d := middleware.FromContext(r.Context())
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.Join([]string{r.RequestURI, r.URL.Path, strings.Join(r.Header["X-User"], "+"), r.Header.Get("X-Gone"), r.Header.Get("Scriptorium-Path"), d.Upstream, string(body)}, " "))
	})
	for name, decider := range both {
		gate, err := middleware.New(decider, middleware.Rule{Script: "acme/gate", Body: 8})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(gate.Handler(app))
		t.Cleanup(server.Close)
		for _, tt := range []struct {
			target, body string
			status       int
			answer       string
			headers      http.Header
		}{
			{"/headers", "hello", 200, "/headers /headers ann+bob    hello", http.Header{"X-App": {"yes"}}},
			{"/response", "", 200, "/response /response mallory gone   ", http.Header{"X-Answer": {"42", "43"}, "X-App": nil, "Set-Cookie": {"seen=1; Path=/; HttpOnly; Secure; SameSite=Lax"}}},
			{"/rewrite?x", "", 200, "/oth%2Fer?q=1 /oth/er mallory gone  canary ", nil},
			{"/respond", "", 200, "from the script\n", http.Header{"X-App": nil, "Content-Type": {"text/plain; charset=utf-8"}}},
			{"/status", "", 418, "", nil},
			{"/redirect", "", 307, "", http.Header{"Location": {"/login"}}},
			{"/fails", "", 503, "no decision\n", http.Header{"Scriptorium-Reason": {"SCRIPT"}}},
			{"/headers", "123456789", 413, "the body is too large\n", nil},
			{"/shop/..%2Fadmin", "", 400, "path: has %2F or %5C in it, which servers read differently\n", nil},
			{"/shop/%5cadmin", "", 400, "", nil},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+tt.target, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"X-User": {"mallory"}, "X-Gone": {"gone"}, "Scriptorium-Path": {"/x"}}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != tt.status || tt.answer != "" && string(body) != tt.answer {
				t.Errorf("%s: %s: %d %q, %v, want %d %q", name, tt.target, resp.StatusCode, body, err, tt.status, tt.answer)
			}
			for header, want := range tt.headers {
				if diff := cmp.Diff(want, http.Header{header: resp.Header[header]}[header]); diff != "" && len(want)+len(resp.Header[header]) > 0 {
					t.Errorf("%s: %s: %s: %s", name, tt.target, header, diff)
				}
			}
		}
	}
}

// TestIsolatedTenants are refused, and the refusal says what to do.
func TestIsolatedTenants(t *testing.T) {
	w := localtest.Start(t, 0)
	a := w.Embed(t, "shop")
	w.Publish(t, localtest.Manifest("greet", greet), 1)
	if _, _, err := w.Registry.SetTenant(t.Context(), "acme", &script.TenantSettings{Isolation: script.IsolationProcess}, registryclient.DataWrite{Author: "test"}); err != nil {
		t.Fatal(err)
	}
	w.Publish(t, localtest.Manifest("greet", greet+" -- 2"), 0) // so the settings have come, too
	ctx, cancel := context.WithTimeout(t.Context(), localtest.Patience)
	defer cancel()
	for fleet, err := range w.Registry.WatchStatus(ctx, script.Name{Tenant: "acme", Script: "greet"}) {
		if err != nil {
			t.Fatalf("the agent does not say that it lags: %v", err)
		}
		if one := fleet.Scripts[0]; one.Release.Latest == 2 && one.Lagging == 1 && one.Active == 0 && !one.Converged {
			break
		}
	}
	if _, err := a.Call(t.Context(), "acme/greet", "ann"); script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "run agentd") {
		t.Errorf("the script of an isolated tenant: %v", err)
	}
}
