package gateways_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// traefik is the part of Traefik's dynamic configuration that the page uses. The decoder takes no other fields.
type traefik struct {
	HTTP struct {
		Routers map[string]struct {
			EntryPoints []string `yaml:"entryPoints"`
			Rule        string   `yaml:"rule"`
			Middlewares []string `yaml:"middlewares"`
			Service     string   `yaml:"service"`
		} `yaml:"routers"`
		Middlewares map[string]struct {
			Headers *struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			} `yaml:"headers"`
			ForwardAuth *forwardAuth `yaml:"forwardAuth"`
		} `yaml:"middlewares"`
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct {
					URL string `yaml:"url"`
				} `yaml:"servers"`
			} `yaml:"loadBalancer"`
		} `yaml:"services"`
	} `yaml:"http"`
}

type forwardAuth struct {
	Address string `yaml:"address"`
	TLS     *struct {
		CA   string `yaml:"ca"`
		Cert string `yaml:"cert"`
		Key  string `yaml:"key"`
	} `yaml:"tls"`
	AuthResponseHeaders    []string `yaml:"authResponseHeaders"`
	PreserveLocationHeader bool     `yaml:"preserveLocationHeader"`
	TrustForwardHeader     *bool    `yaml:"trustForwardHeader"`
	MaxResponseBodySize    int64    `yaml:"maxResponseBodySize"`
}

// handler returns what Traefik does with the router app.
func (c *traefik) handler(t *testing.T) http.Handler {
	t.Helper()
	router := c.HTTP.Routers["app"]
	app, err := url.Parse(c.HTTP.Services[router.Service].LoadBalancer.Servers[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	var h http.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(app) }}
	for _, name := range slices.Backward(router.Middlewares) {
		switch m := c.HTTP.Middlewares[name]; {
		case m.Headers != nil:
			h = customHeaders(m.Headers.CustomRequestHeaders, h)
		case m.ForwardAuth != nil:
			h = m.ForwardAuth.handler(t, h)
		default:
			t.Fatalf("there is no middleware %s", name)
		}
	}
	return withoutHops(h)
}

// withoutHops is removeConnectionHeaders of pkg/middlewares/forwardedheaders/forwarded_header.go: an entry
// point drops the headers that a client names in Connection before any middleware sets one.
func withoutHops(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, names := range r.Header["Connection"] {
			for name := range strings.SplitSeq(names, ",") {
				r.Header.Del(strings.TrimSpace(name))
			}
		}
		r.Header.Del("Connection")
		next.ServeHTTP(w, r)
	})
}

// customHeaders is modifyCustomRequestHeaders of pkg/middlewares/headers/header.go.
func customHeaders(custom map[string]string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range custom {
			if value == "" {
				r.Header.Del(name)
			} else {
				r.Header.Set(name, value)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// hopHeaders are those of pkg/middlewares/auth/forward.go.
var hopHeaders = []string{"Connection", "Keep-Alive", "Te", "Trailers", "Transfer-Encoding", "Upgrade"}

// handler does what ServeHTTP of pkg/middlewares/auth/forward.go does.
func (f *forwardAuth) handler(t *testing.T, next http.Handler) http.Handler {
	t.Helper()
	if f.TrustForwardHeader == nil || *f.TrustForwardHeader {
		t.Fatal("want trustForwardHeader: false")
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if f.TLS != nil {
		client.Transport = &http.Transport{TLSClientConfig: f.secure(t)}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks, err := http.NewRequestWithContext(r.Context(), http.MethodGet, f.Address, nil)
		if err != nil {
			t.Error(err)
		}
		describe(r, asks)
		resp, err := client.Do(asks)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, f.MaxResponseBodySize))
		if err != nil {
			t.Error(err)
		}
		if resp.StatusCode < 200 || resp.StatusCode >= 300 {
			f.deny(w, resp, body)
			return
		}
		for _, name := range f.AuthResponseHeaders {
			key := http.CanonicalHeaderKey(name)
			r.Header.Del(key)
			if values := resp.Header[key]; len(values) > 0 {
				r.Header[key] = slices.Clone(values)
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (f *forwardAuth) deny(w http.ResponseWriter, resp *http.Response, body []byte) {
	for name, values := range resp.Header {
		if !slices.Contains(hopHeaders, name) {
			w.Header()[name] = values
		}
	}
	if location, err := resp.Location(); err == nil && !f.PreserveLocationHeader {
		w.Header().Set("Location", location.String())
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
}

// describe is writeHeader, with trustForwardHeader: false.
func describe(r, asks *http.Request) {
	asks.Header = r.Header.Clone()
	for _, names := range r.Header["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			asks.Header.Del(strings.TrimSpace(name))
		}
	}
	for name := range asks.Header {
		if slices.Contains(hopHeaders, name) || strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			asks.Header.Del(name)
		}
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		asks.Header.Set("X-Forwarded-For", host)
	}
	asks.Header.Set("X-Forwarded-Method", r.Method)
	asks.Header.Set("X-Forwarded-Proto", "http")
	asks.Header.Set("X-Forwarded-Port", "80")
	asks.Header.Set("X-Forwarded-Host", r.Host)
	asks.Header.Set("X-Forwarded-Uri", r.URL.RequestURI())
}

func (f *forwardAuth) secure(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.TLS.Cert, f.TLS.Key)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(f.TLS.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

// TestTraefikAsks: what the page configures does what every gateway does, and no client gains by tokens and headers
// that Traefik uses. The application never sees a token.
func TestTraefikAsks(t *testing.T) {
	t.Parallel()
	const token = "the-token-of-traefik-in-this-test"
	ca := certtest.NewCA(t)
	agent, own := ca.Issue("agent", certtest.Leaf{}), ca.Issue("traefik", certtest.Leaf{CommonName: "traefik"})
	text, err := os.ReadFile(pages + "traefik.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := page.Blocks(string(text), "yaml")
	for _, tt := range []struct{ name, callers, config string }{
		{"token", "sha256:DIGEST", "scriptorium-token"},
		{"certificate", "certificates:", "no-originals"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			port := porttest.Address(t)
			replace := strings.NewReplacer(
				"DIGEST", fmt.Sprintf("%x", sha256.Sum256([]byte(token))), "TOKEN", token, "127.0.0.1:7071", port,
				"/etc/traefik/ca.crt", ca.File, "/etc/traefik/traefik.crt", own.Cert, "/etc/traefik/traefik.key", own.Key,
			)
			block := func(words string) string {
				found, err := page.Find(blocks, words)
				if err != nil {
					t.Fatal(err)
				}
				return replace.Replace(found)
			}
			file := filepath.Join(t.TempDir(), "callers.yaml")
			if err := os.WriteFile(file, []byte(block(tt.callers)), 0o600); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, local.WithAgents(func(cfg *agentd.Config) {
				oneWaits(cfg)
				cfg.Port = agentd.Port{Listen: port, Callers: file}
				if tt.name == "certificate" {
					cfg.Port.Cert, cfg.Port.Key, cfg.Port.ClientCA = agent.Cert, agent.Key, ca.File
				}
			}))
			w.traefik(t, strings.ReplaceAll(block(tt.config), "127.0.0.1:9000", w.app.Listener.Addr().String()), token, tt.name == "token")
		})
	}
}

func parseTraefik(t *testing.T, text string) (config traefik) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	return config
}

// traefikByEvent starts what the configuration makes of Traefik if it asks for the chain.
func (w *world) traefikByEvent(t *testing.T, text string) (address string) {
	t.Helper()
	config := parseTraefik(t, w.httpEvent()(text))
	gateway := httptest.NewServer(config.handler(t))
	t.Cleanup(gateway.Close)
	return gateway.Listener.Addr().String()
}

// traefik has clients use what the configuration makes of Traefik.
func (w *world) traefik(t *testing.T, text, token string, overwrites bool) {
	t.Helper()
	config := parseTraefik(t, text)
	var leaked atomic.Bool
	app := w.app.Config.Handler
	w.app.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.Contains(fmt.Sprint(r.Header), token) {
			leaked.Store(true)
		}
		app.ServeHTTP(rw, r)
	})
	gateway := httptest.NewServer(config.handler(t))
	defer gateway.Close()
	address := gateway.Listener.Addr().String()
	w.conform(t, address, nil)
	for _, x := range []exchange{
		{name: "a token of the client's", target: "/shop", headers: []string{"Scriptorium-Token", "the-token-of-somebody-else"}, status: 200, served: true},
		{name: "two of them", target: "/admin", headers: []string{"Scriptorium-Token", "x", "Scriptorium-Token", "y"}, status: 403},
		{name: "the client's own Authorization", target: "/shop", headers: []string{"Authorization", "Bearer of-the-client"}, status: 200, served: true},
	} {
		if err := w.exchange(t, address, x); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.URL+"/account", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultTransport.RoundTrip(req); err != nil {
		t.Error(err)
	} else if _ = resp.Body.Close(); resp.Header.Get("Location") != "/login?to=/account" {
		t.Errorf("the redirect leads to %s", resp.Header.Get("Location"))
	}
	if overwrites { // a client that names the token has its own removed, and no other
		if err := w.exchange(t, address, exchange{target: "/shop", headers: []string{"Connection", "scriptorium-token"}, status: 200, served: true}); err != nil {
			t.Errorf("a client that removes the token: %v", err)
		}
	}
	column := w.column(t, "Traefik")
	if overwrites {
		w.table(t, address, "Traefik")
		w.events(t, w.traefikByEvent(t, text), column)
	}
	w.closed(t, address, column)
	if leaked.Load() {
		t.Error("the application has seen the token")
	}
}
