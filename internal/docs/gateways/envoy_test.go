package gateways_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/envoy/envoytest"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// envoyPage is the configuration of the page for this world: the bootstrap with ext_authz, and what ext_proc has
// in its place.
type envoyPage struct{ bootstrap, filter, route string }

// envoy returns the page's configuration. The application is in the cluster stable. In the cluster canary, it says so.
func (w *world) envoy(t *testing.T) envoyPage {
	t.Helper()
	canary := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Cluster", "canary"+r.Header.Get("Scriptorium-Other"))
		w.serve(rw, r)
	}))
	t.Cleanup(canary.Close)
	text, err := os.ReadFile(pages + "envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(words string, longer ...string) string {
		t.Helper()
		found, err := page.Find(page.Blocks(string(text), "yaml"), words)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(longer); i += 2 {
			found = w.patient(found, longer[i], longer[i+1])
		}
		return found
	}
	p := envoyPage{
		bootstrap: block("static_resources:", "timeout: 0.2s", "timeout: 30s", "timeout: 100ms", "timeout: 5s"),
		filter:    block("scriptorium-param-env", "message_timeout: 0.2s", "message_timeout: 30s", "value: 100ms", "value: 5s"),
		route:     block("ExtProcPerRoute"),
	}
	for from, to := range map[string]string{
		"script: acme/route": "script: acme/gate", "/run/scriptorium": w.sockets,
		socketAddress(t, "stable.shop.svc:8080"): socketAddress(t, w.app.Listener.Addr().String()),
		socketAddress(t, "canary.shop.svc:8080"): socketAddress(t, canary.Listener.Addr().String()),
	} {
		p.bootstrap = w.patient(p.bootstrap, from, to)
	}
	p.filter = w.patient(p.filter, "value: acme/route", "value: acme/gate")
	return p
}

// socketAddress is the address as the page writes it.
func socketAddress(t *testing.T, address string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return "{address: " + host + ", port_value: " + port + "}"
}

// TestEnvoyAsks: a program that does what Envoy's source says about ext_authz does what every gateway does, with the
// configuration of the page.
func TestEnvoyAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.envoy(t)
	w.envoyColumn(t, "Envoy, ext_authz", func(changed change) http.Handler {
		return envoytest.Authz(t, changed(p.bootstrap))
	}, w.byEvent("script: acme/gate", "event: pre-route", "param.env: prod", "tenant: acme", "timeout: 5s", "key: request.cookies.user"))
}

// TestEnvoyProcesses is the same about ext_proc.
func TestEnvoyProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.envoy(t)
	gateway := httptest.NewServer(envoytest.Proc(t, p.bootstrap, p.filter, p.route))
	defer gateway.Close()
	w.appliesAll(t, gateway.Listener.Addr().String())
	w.publish(w.source)
	w.envoyColumn(t, "Envoy, ext_proc", func(changed change) http.Handler {
		return envoytest.Proc(t, p.bootstrap, changed(p.filter), p.route)
	}, w.byEvent(
		"{key: scriptorium-script, value: acme/gate}", "{key: scriptorium-event, value: pre-route}",
		"{key: scriptorium-param-env, value: prod}", "{key: scriptorium-tenant, value: acme}",
		"{key: scriptorium-timeout, value: 5s}", "{key: scriptorium-key, value: request.cookies.user}",
	))
}

// envoyColumn checks a column of the table. start starts a gateway with the page's configuration, changed.
func (w *world) envoyColumn(t *testing.T, column string, start func(change) http.Handler, byEvent change) {
	t.Helper()
	serve := func(changed change) string {
		gateway := httptest.NewServer(start(changed))
		t.Cleanup(gateway.Close)
		return gateway.Listener.Addr().String()
	}
	address, cells := serve(asItIs), w.column(t, column)
	w.conform(t, address, nil)
	w.table(t, address, column)
	w.envoyRoutes(t, address)
	w.events(t, serve(byEvent), cells)
	w.closed(t, address, cells)
}

// envoyRoutes checks what the routes of the page say.
func (w *world) envoyRoutes(t *testing.T, address string) {
	t.Helper()
	start, _, _ := strings.Cut(w.source, "    function")
	w.publish(start + `    function handle(request)
      if request.path == "/canary" then return { upstream = "canary", path = "/shop" } end
      if request.path == "/images/denied" then return false end
      if request.route == "images" then error("a fault") end
      return { allow = request.params.env == "prod" }
    end
`)
	for _, x := range []exchange{
		{name: "a route without the filter", target: "/healthz", status: http.StatusOK},
		{name: "a setting of the route", target: "/images/x", status: http.StatusOK, answer: "GET /images/x for : ", served: true},
		{name: "a denial on this route", target: "/images/denied", status: http.StatusForbidden},
		{name: "a parameter of the filter's", target: "/shop", status: http.StatusOK, answer: "GET /shop for : ", served: true},
	} {
		if err := w.exchange(t, address, x); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	for path, want := range map[string]string{"/canary": "canary", "/shop": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Scriptorium-Upstream", "canary")
		req.Header.Set("Scriptorium-Other", "forged")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := resp.Header.Get("X-Cluster"); resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s goes to %q with %d, want %q", path, got, resp.StatusCode, want)
		}
	}
	w.publish(w.source)
}
