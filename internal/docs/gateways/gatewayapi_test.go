package gateways_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// externalAuth is the part of an HTTPRoute that configures the filter.
type externalAuth struct {
	Protocol string `yaml:"protocol"`
	HTTP     struct {
		Path                   string   `yaml:"path"`
		AllowedHeaders         []string `yaml:"allowedHeaders"`
		AllowedResponseHeaders []string `yaml:"allowedResponseHeaders"`
	} `yaml:"http"`
}

// handler does what the specification of the Gateway API says about the filter, at the agent's address. A denial
// reaches the client as the agent has it.
func (f *externalAuth) handler(t *testing.T, agent string, client *http.Client, app *url.URL) http.Handler {
	t.Helper()
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(app) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks, err := http.NewRequestWithContext(r.Context(), r.Method, "https://"+agent+f.HTTP.Path+r.RequestURI, nil)
		if err != nil {
			t.Error(err)
			return
		}
		asks.Host = r.Host
		for _, name := range append([]string{"Authorization"}, f.HTTP.AllowedHeaders...) {
			asks.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
		resp, err := client.Do(asks)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			for _, name := range []string{"Location", "Content-Type"} {
				w.Header().Set(name, resp.Header.Get(name))
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body)
			return
		}
		for _, name := range f.HTTP.AllowedResponseHeaders {
			r.Header[http.CanonicalHeaderKey(name)] = resp.Header.Values(name)
		}
		next.ServeHTTP(w, r)
	})
}

// gatewayAPIPage returns the filter of the page, and a file with the callers of its values.
func gatewayAPIPage(t *testing.T) (filter externalAuth, file string) {
	t.Helper()
	text, err := os.ReadFile(pages + "gateway-api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := page.Blocks(string(text), "yaml")
	block := func(words string, into any) {
		t.Helper()
		found, err := page.Find(blocks, words)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(found, "---\n") {
			if strings.Contains(document, words) {
				if err := yaml.Unmarshal([]byte(document), into); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var values struct {
		Agent struct {
			HTTP struct {
				Callers any `yaml:"callers"`
			} `yaml:"http"`
		} `yaml:"agent"`
	}
	block("# edge.values.yaml", &values)
	var route struct {
		Spec struct {
			Rules []struct {
				Filters []struct {
					ExternalAuth externalAuth `yaml:"externalAuth"`
				} `yaml:"filters"`
			} `yaml:"rules"`
		} `yaml:"spec"`
	}
	block("kind: HTTPRoute\nmetadata", &route)
	filter = route.Spec.Rules[0].Filters[0].ExternalAuth
	if filter.Protocol != "HTTP" {
		t.Fatalf("the page's filter is %+v", filter)
	}
	callers, err := yaml.Marshal(map[string]any{"callers": values.Agent.HTTP.Callers})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(file, callers, 0o600); err != nil {
		t.Fatal(err)
	}
	return filter, file
}

// TestGatewayAPIAsks: the fields of the page's filter do what every gateway does.
func TestGatewayAPIAsks(t *testing.T) {
	filter, file := gatewayAPIPage(t)
	ca, port := certtest.NewCA(t), porttest.Address(t)
	agent, edge, other := ca.Issue("agent", certtest.Leaf{}), ca.Issue("edge", certtest.Leaf{DNS: []string{"edge.shop"}}), ca.Issue("other", certtest.Leaf{DNS: []string{"other.shop"}})
	w := newWorld(t, local.WithAgents(func(cfg *agentd.Config) {
		cfg.Port = agentd.Port{Listen: port, Callers: file, Cert: agent.Cert, Key: agent.Key, ClientCA: ca.File}
	}))
	app, err := url.Parse(w.app.URL)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(cert, key string) string {
		tlsOf := forwardAuth{}
		tlsOf.TLS = &struct {
			CA   string `yaml:"ca"`
			Cert string `yaml:"cert"`
			Key  string `yaml:"key"`
		}{ca.File, cert, key}
		client := &http.Client{
			Transport:     &http.Transport{TLSClientConfig: tlsOf.secure(t)},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		gateway := httptest.NewServer(withoutHops(filter.handler(t, port, client, app)))
		t.Cleanup(gateway.Close)
		return gateway.Listener.Addr().String()
	}
	address := serve(edge.Cert, edge.Key)
	w.conform(t, address, nil)
	if err := w.exchange(t, serve(other.Cert, other.Key), exchange{target: "/shop", status: http.StatusUnauthorized}); err != nil {
		t.Errorf("a gateway with another certificate: %v", err)
	}
	w.closed(t, address, map[string]string{"the script fails": "503", "the script is missing": "503", "the agent is gone": "500"})
}
