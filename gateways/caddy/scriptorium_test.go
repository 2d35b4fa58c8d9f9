package scriptorium_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/scriptorium-dev/scriptorium/gateways/caddy"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// features decides by the path.
const features = `function handle(request)
  local path = request.path
  if path == "/deny" then return { allow = false, status = 418, body = "not you\n", response_headers = { set = { ["x-why"] = "tea" } } } end
  if path == "/respond" then return { allow = false, status = 200, body = "from the script\n" } end
  if path == "/redirect" then return { redirect = "/login", status = 307 } end
  if path == "/headers" then
    return { headers = { set = { ["x-user"] = "ann" }, append = { ["x-user"] = "bob" }, remove = { "x-gone" } } }
  end
  if path == "/response" then
    return { response_headers = { set = { ["x-app"] = "no" }, remove = { "x-secret" } }, cookies = { { name = "seen", value = "1" } } }
  end
  if path == "/rewrite" then return { path = "/other", query = "q=1" } end
  if path == "/route" then return { upstream = "canary", metadata = { plan = "gold", n = 7, list = { 1 } } } end
  if path == "/body" then return { allow = false, status = 403, body = request.body or "no body" } end
  if path == "/ip" then return { allow = false, status = 403, body = request.remote_addr .. " " .. request.scheme .. " " .. request.host .. " " .. request.params.env } end
  if path == "/misspelled" then return { alow = false } end
  if path == "/fails" then error("a fault") end
  if path == "/slow" then while true do end end
end`

// gate returns the manifest of the script. A fast machine must meet the timeout before it has run all instructions.
func gate() string {
	return strings.Replace(localtest.Manifest("gate", features), "{timeout: 1s}", "{timeout: 1s, instructions: 100000000}", 1)
}

// site is a Caddy with a script before an application.
type site struct {
	t       testing.TB
	world   *localtest.World
	address string
	app     *httptest.Server
	state   string
	admin   string // where Caddy's API is; "off" by default
}

func newSite(tb testing.TB) *site {
	tb.Helper()
	tb.Setenv("XDG_DATA_HOME", tb.TempDir())
	tb.Setenv("XDG_CONFIG_HOME", tb.TempDir())
	s := &site{t: tb, world: localtest.Start(tb, 1), address: porttest.Address(tb), admin: "off"}
	s.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-App", "yes")
		w.Header().Set("X-Secret", "1")
		_, _ = fmt.Fprintf(w, "%s %s for %s gone:%s own:%s route:%s: %s", r.Method, r.RequestURI, strings.Join(r.Header["X-User"], "+"), r.Header.Get("X-Gone"), r.Header.Get("Scriptorium-Path"), r.Header.Get("X-Route"), body)
	}))
	tb.Cleanup(s.app.Close)
	s.world.Publish(tb, gate(), 1)
	s.state = filepath.Join(s.world.Dir, "caddy")
	tb.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// agent are the settings of the agent.
func (s *site) agent() string { return s.agentIn("caddy", s.state) }

// agentIn are the settings of an agent with that name and that folder.
func (s *site) agentIn(name, state string) string {
	cfg := s.world.Embedded(s.t, name)
	return fmt.Sprintf("name %s\nregistry %s\nnats_url %s\ntrusted_key %s\nstate_dir %s\nnats_user %s\nnats_password_file %s\ninsecure_plaintext\n",
		name, cfg.Registry, cfg.NATS[0], cfg.TrustedKeys[0], state, cfg.NATSUser, cfg.NATSPasswordFile)
}

// load has Caddy take the configuration: the global settings of the agent, and a route.
func (s *site) load(agent, route string) error {
	s.t.Helper()
	config, err := s.adapt(agent, route)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// adapt returns the configuration as JSON.
func (s *site) adapt(agent, route string) ([]byte, error) {
	text := "{\nadmin " + s.admin + "\nauto_https off\ngrace_period 1s\n"
	if agent != "" {
		text += "scriptorium {\n" + agent + "}\n"
	}
	text += "}\nhttp://" + s.address + " {\nlog\n" + route + "\n}\n"
	adapter := caddyconfig.GetAdapter("caddyfile")
	config, _, err := adapter.Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return config, err
}

func (s *site) mustLoad(agent, route string) {
	s.t.Helper()
	if err := s.load(agent, route); err != nil {
		s.t.Fatal(err)
	}
}

// proxy is the route of most tests.
func (s *site) proxy(settings string) string {
	return "scriptorium acme/gate {\n" + settings + "\n}\nreverse_proxy " + s.app.Listener.Addr().String() + " {\nheader_up X-Route \"{scriptorium.upstream}/{scriptorium.metadata.plan}/{scriptorium.metadata.n}/{scriptorium.metadata.list}/{scriptorium.metadata.none}/{scriptorium.version}\"\n}"
}

type answer struct {
	status int
	body   string
	header http.Header
}

// ask asks again if the connection ends without an answer: Caddy ends some at a reload.
func (s *site) ask(target, body string) answer {
	s.t.Helper()
	resp, err := s.roundTrip(target, body)
	for tries := 1; err != nil && tries < 10; tries++ {
		resp, err = s.roundTrip(target, body)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header}
}

func (s *site) roundTrip(target, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.address+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"X-User": {"mallory"}, "X-Gone": {"1"}, "Scriptorium-Path": {"/x"}, "Scriptorium_path": {"/x"}}
	return http.DefaultTransport.RoundTrip(req)
}

// TestDecisions are done in full, by an agent in Caddy and by one beside it.
func TestDecisions(t *testing.T) {
	s := newSite(t)
	for name, mode := range map[string]struct{ global, settings string }{
		"global":    {s.agent(), ""},
		"directive": {"", s.agent()},
		"socket":    {"", "socket " + filepath.Join(s.world.Stack.AgentDir(1), "http.sock") + "\n"},
	} {
		s.mustLoad(mode.global, s.proxy(mode.settings+"param env prod\nbody 8"))
		if name != "socket" {
			s.world.Publish(t, gate(), 2) // Caddy's agent runs it, too
		}
		host, _, _ := strings.Cut(s.address, ":")
		for _, tt := range []struct {
			target, body string
			status       int
			answer       string
			header       [2]string
		}{
			{"/deny", "", 418, "not you\n", [2]string{"X-Why", "tea"}},
			{"/respond", "", 200, "from the script\n", [2]string{"X-App", ""}},
			{"/redirect", "", 307, "", [2]string{"Location", "/login"}},
			{"/headers", "hello", 200, "POST /headers for ann+bob gone: own: route://///1: hello", [2]string{"X-App", "yes"}},
			{"/response", "", 200, "POST /response for mallory gone:1 own: route://///1: ", [2]string{"X-App", "no"}},
			{"/response", "", 200, "", [2]string{"X-Secret", ""}},
			{"/response", "", 200, "", [2]string{"Set-Cookie", "seen=1; Path=/; HttpOnly; Secure; SameSite=Lax"}},
			{"/rewrite?a=b", "", 200, "POST /other?q=1 for mallory gone:1 own: route://///1: ", [2]string{}},
			{"/route", "", 200, "POST /route for mallory gone:1 own: route:canary/gold/7/[1]//1: ", [2]string{}},
			{"/body", "hello", 403, "hello", [2]string{}},
			{"/body", "", 403, "no body", [2]string{}},
			{"/body", "123456789", 413, "", [2]string{}},
			{"/ip", "", 403, host + " http " + s.address + " prod", [2]string{}},
			{"/misspelled", "", 503, "no decision\n", [2]string{"Scriptorium-Reason", "INVALID"}},
			{"/fails", "", 503, "no decision\n", [2]string{"Scriptorium-Reason", "SCRIPT"}},
			{"/slow", "", 503, "no decision\n", [2]string{}},
			{"/x/..//%64eny", "", 418, "", [2]string{}},
			{"/x%2Fdeny", "", 400, "", [2]string{}},
		} {
			a := s.ask(tt.target, tt.body)
			if a.status != tt.status || tt.answer != "" && a.body != tt.answer || tt.header[0] != "" && a.header.Get(tt.header[0]) != tt.header[1] {
				t.Errorf("%s: %s: %d %q %s=%q, want %d %q %q", name, tt.target, a.status, a.body, tt.header[0], a.header.Get(tt.header[0]), tt.status, tt.answer, tt.header)
			}
		}
	}
}

// TestFailures end as the setting says.
func TestFailures(t *testing.T) {
	s := newSite(t)
	for fail, status := range map[string]int{"": 503, "fail closed": 503, "fail open": 200} {
		s.mustLoad(s.agent(), s.proxy(fail))
		s.world.Publish(t, gate(), 2)
		if a := s.ask("/fails", ""); a.status != status {
			t.Errorf("%q: %d", fail, a.status)
		}
		if a := s.ask("/headers%5c", ""); a.status != 400 {
			t.Errorf("%q: a malformed request: %d", fail, a.status)
		}
	}
	s.mustLoad(s.agent(), s.proxy("timeout 1ms"))
	if a := s.ask("/slow", ""); a.status != 503 || a.header.Get("Scriptorium-Reason") != "TIMEOUT" {
		t.Errorf("a timeout: %d %v", a.status, a.header)
	}
	s.mustLoad("", s.proxy("socket "+filepath.Join(s.world.Dir, "none.sock")))
	if a := s.ask("/headers", ""); a.status != 503 || a.header.Get("Scriptorium-Reason") != "UNAVAILABLE" {
		t.Errorf("the agent is gone: %d %v", a.status, a.header)
	}
}

// TestReloads keep the agent: it serves without its registry, and calls in flight do not fail. Its
// state folder is free when no handler needs it any more.
func TestReloads(t *testing.T) {
	s := newSite(t)
	s.mustLoad(s.agent(), s.proxy(""))
	s.world.Publish(t, gate(), 2)
	if err := s.world.Stack.StopRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			resp, err := http.Get("http://" + s.address + "/headers")
			if err != nil {
				continue // Caddy closes idle connections at a reload
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				stopped <- fmt.Errorf("status %d at a reload", resp.StatusCode)
				return
			}
		}
	}()
	for i := range 5 {
		s.mustLoad(s.agent(), s.proxy(fmt.Sprintf("param n %d", i)))
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	err := s.load(s.agent()+"max_running 1\n", s.proxy(""))
	if err == nil || !strings.Contains(err.Error(), "state_dir") || !strings.Contains(err.Error(), "restart Caddy") {
		t.Errorf("two agents have one folder: %v", err)
	}
	if a := s.ask("/headers", ""); a.status != 200 {
		t.Errorf("after a reload that failed: %d", a.status)
	}
	s.mustLoad("", "respond hello")
	s.mustLoad(s.agent()+"max_running 1\n", s.proxy(""))
	if a := s.ask("/headers", ""); a.status != 200 {
		t.Errorf("after the agent started again: %d", a.status)
	}
}

// TestUpstreams chooses among upstreams as docs/gateways/caddy.md does, by the last decision.
func TestUpstreams(t *testing.T) {
	text, err := os.ReadFile("../../docs/gateways/caddy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "    @canary ")
	block, _, _ = strings.Cut("@canary "+block, "\n\n")
	if !found {
		t.Fatal("the page has no @canary")
	}
	s := newSite(t)
	canary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "canary") }))
	t.Cleanup(canary.Close)
	block = strings.NewReplacer("127.0.0.1:9001", canary.Listener.Addr().String(), "127.0.0.1:9000", s.app.Listener.Addr().String()).Replace(block)
	s.world.Publish(t, localtest.Manifest("plain", `function handle() end`), 1)
	socket := " {\nsocket " + filepath.Join(s.world.Stack.AgentDir(1), "http.sock") + "\n}\n"
	s.mustLoad("", "scriptorium acme/gate"+socket+block)
	if a := s.ask("/route", ""); a.body != "canary" {
		t.Errorf("%d %q", a.status, a.body)
	}
	if a := s.ask("/headers", ""); !strings.HasPrefix(a.body, "POST /headers") {
		t.Errorf("%d %q", a.status, a.body)
	}
	s.mustLoad("", "scriptorium acme/gate"+socket+"scriptorium acme/plain"+socket+block)
	if a := s.ask("/route", ""); !strings.HasPrefix(a.body, "POST /route") {
		t.Errorf("the first decision holds after another: %d %q", a.status, a.body)
	}
}

// TestMistakes in a Caddyfile are errors that say what is wrong.
func TestMistakes(t *testing.T) {
	s := newSite(t)
	for route, says := range map[string]string{
		"scriptorium":                                         "wrong argument count",
		"scriptorium gate":                                    "script",
		"scriptorium acme/gate extra":                         "wrong argument count",
		"scriptorium acme/gate {\nfail maybe\n}":              "closed or open",
		"scriptorium acme/gate {\ntimeout soon\n}":            "timeout",
		"scriptorium acme/gate {\nbody 16KiX\n}":              "16KiX",
		"scriptorium acme/gate {\nbody 2GiB\n}":               "body",
		"scriptorium acme/gate {\nparam env a,fail=open\n}":   "params",
		"scriptorium acme/gate {\nregistri x\n}":              "registri is no setting",
		"scriptorium acme/gate {\nsocket x\nregistry y\n}":    "leave one out",
		"scriptorium acme/gate {\nregistry y\n}":              "state_dir",
		"scriptorium acme/gate {\nregistry y\nstate_dir z\n}": "trusted_key",
		"scriptorium acme/gate":                               "global options",
	} {
		if err := s.load("", route); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", route, err, says)
		}
	}
	if err := s.load("registri x\n", "respond hello"); err == nil || !strings.Contains(err.Error(), "registri is no setting") {
		t.Error(err)
	}
}

// TestMetrics shows those of the agent among Caddy's, also after a reload.
func TestMetrics(t *testing.T) {
	s := newSite(t)
	for i := range 2 {
		s.mustLoad(s.agent(), fmt.Sprintf("route {\nmetrics /metrics\n%s\n%s\n}", s.proxy(fmt.Sprintf("param n %d", i)), s.proxy("")))
	}
	if a := s.ask("/metrics", ""); !strings.Contains(a.body, `scriptorium_agent_scripts{agent="caddy"}`) {
		t.Errorf("%d %.200q", a.status, a.body)
	}
}

// TestJSON has the handler in a configuration as JSON.
func TestJSON(t *testing.T) {
	s := newSite(t)
	cfg, err := json.Marshal(map[string]any{
		"admin": map[string]any{"disabled": true},
		"apps": map[string]any{"http": map[string]any{"servers": map[string]any{"one": map[string]any{
			"listen": []string{s.address},
			"routes": []any{map[string]any{"handle": []any{
				map[string]any{"handler": "scriptorium", "script": "acme/gate", "agent": s.world.Embedded(t, "caddy"), "timeout": "1s"},
				map[string]any{"handler": "static_response", "body": "hello"},
			}}},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(cfg, true); err != nil {
		t.Fatal(err)
	}
	s.world.Publish(t, gate(), 2)
	if a := s.ask("/deny", ""); a.status != 418 {
		t.Errorf("%d %q", a.status, a.body)
	}
	if a := s.ask("/headers", ""); a.status != 200 || a.body != "hello" {
		t.Errorf("%d %q", a.status, a.body)
	}
}
