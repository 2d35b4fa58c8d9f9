package gateways_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// overHTTP is the provider of Istio's page: what Envoy's ext_authz does over HTTP comes of its fields.
type overHTTP struct {
	Service                      string   `yaml:"service"`
	Port                         int      `yaml:"port"`
	Timeout                      string   `yaml:"timeout"`
	FailOpen                     bool     `yaml:"failOpen"`
	StatusOnError                string   `yaml:"statusOnError"`
	PathPrefix                   string   `yaml:"pathPrefix"`
	IncludeRequestHeadersInCheck []string `yaml:"includeRequestHeadersInCheck"`
	HeadersToUpstreamOnAllow     []string `yaml:"headersToUpstreamOnAllow"`
	HeadersToDownstreamOnDeny    []string `yaml:"headersToDownstreamOnDeny"`
}

// handler does what check and toResponse of Envoy's ext_authz_http_impl.cc do.
func (p *overHTTP) handler(t *testing.T, socket string, app *url.URL) http.Handler {
	t.Helper()
	timeout, err := time.ParseDuration(p.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	onError, err := strconv.Atoi(p.StatusOnError)
	if err != nil {
		t.Fatal(err)
	}
	agent := &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(agent.CloseIdleConnections)
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(app) }}
	// As sanitizeConnectionHeader of source/common/http/utility.cc does, before any filter.
	return withoutHops(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checked, err := p.check(r, agent)
		if err != nil || checked.status >= http.StatusInternalServerError { // an error, also if the agent has denied
			w.WriteHeader(onError)
			return
		}
		if checked.status != http.StatusOK {
			for _, name := range append([]string{"www-authenticate", "location"}, p.HeadersToDownstreamOnDeny...) {
				if values := checked.header.Values(name); len(values) > 0 {
					w.Header()[http.CanonicalHeaderKey(name)] = slices.Clone(values)
				}
			}
			w.WriteHeader(checked.status)
			_, _ = w.Write(checked.body)
			return
		}
		for _, name := range p.HeadersToUpstreamOnAllow {
			for _, value := range checked.header.Values(name) {
				r.Header.Set(name, value) // each in place of the one before
			}
		}
		next.ServeHTTP(w, r)
	}))
}

// checkResult is the agent's answer about a request.
type checkResult struct {
	status int
	header http.Header
	body   []byte
}

func (p *overHTTP) check(r *http.Request, agent *http.Client) (checkResult, error) {
	asks, err := http.NewRequestWithContext(r.Context(), r.Method, "http://agent", http.NoBody)
	if err != nil {
		return checkResult{}, err
	}
	path, query, _ := strings.Cut(r.RequestURI, "?")
	asks.URL.Opaque, asks.URL.RawQuery, asks.Host = p.PathPrefix+path, query, r.Host
	for _, name := range append([]string{"authorization"}, p.IncludeRequestHeadersInCheck...) {
		if values := r.Header.Values(name); len(values) > 0 {
			asks.Header.Set(name, strings.Join(values, ","))
		}
	}
	resp, err := agent.Do(asks)
	if err != nil {
		return checkResult{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return checkResult{resp.StatusCode, resp.Header, body}, err
}

// istio starts what the page's provider makes of Envoy, changed.
func (w *world) istio(t *testing.T, changed change) (address string) {
	t.Helper()
	text, err := os.ReadFile(pages + "istio.md")
	if err != nil {
		t.Fatal(err)
	}
	block, err := page.Find(page.Blocks(string(text), "yaml"), "envoyExtAuthzHttp")
	if err != nil {
		t.Fatal(err)
	}
	var mesh struct {
		ExtensionProviders []struct {
			Name string   `yaml:"name"`
			HTTP overHTTP `yaml:"envoyExtAuthzHttp"`
		} `yaml:"extensionProviders"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(changed(w.patient(w.patient(block, "timeout=100ms", "timeout=5s"), "timeout: 0.2s", "timeout: 30s"))))
	decoder.KnownFields(true)
	if err := decoder.Decode(&mesh); err != nil {
		t.Fatal(err)
	}
	p := mesh.ExtensionProviders[0].HTTP
	if p.FailOpen {
		t.Fatal("want failOpen: false")
	}
	app, err := url.Parse(w.app.URL)
	if err != nil {
		t.Fatal(err)
	}
	gateway := httptest.NewServer(p.handler(t, filepath.Join(w.sockets, "http.sock"), app))
	t.Cleanup(gateway.Close)
	return gateway.Listener.Addr().String()
}

// TestIstioAsks: a program that does what Envoy's source says about ext_authz over HTTP, with the provider of the page.
func TestIstioAsks(t *testing.T) {
	t.Parallel()
	const column = "Envoy, ext_authz over HTTP"
	w := newWorld(t)
	address := w.istio(t, asItIs)
	w.conform(t, address, nil)
	w.table(t, address, column)
	cells := w.column(t, column)
	w.events(t, w.istio(t, w.byEvent("/v1/decide/fail=closed,timeout=5s/acme/gate", "/v1/decide/event=pre-route,key=request.cookies.user/acme")), cells)
	w.closed(t, w.istio(t, func(config string) string {
		return w.patient(config, "fail=closed,", "") // so that the script can say open
	}), cells)
}
