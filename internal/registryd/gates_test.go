package registryd_test

import (
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/prometheustest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hook is a webhook, over TLS.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	answer string
	asked  int
}

func newHook(t *testing.T, answer string) *hook {
	t.Helper()
	h := &hook{answer: answer}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.asked++
		if r.Header.Get("Authorization") != "Bearer let me in" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, h.answer)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) says(answer string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// file returns a file of gates with the hook as webhook/ci of acme.
func (h *hook) file(t *testing.T) string {
	t.Helper()
	ca := file(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})))
	token := file(t, "token", "let me in\n")
	return file(t, "gates.yaml", fmt.Sprintf("sources: [{name: ci, webhook: %q, caFile: %s, tokenFile: %s, tenants: [acme]}]", h.URL, ca, token))
}

// guard publishes a version whose one step has the gate.
func (c *client) guard(t *testing.T, source string, g script.Gate) error {
	t.Helper()
	_, err := c.Publish(t.Context(), &registryv1.PublishRequest{
		Tenant: "acme", Author: "ann", Name: "route", Source: []byte(source),
		Settings: wire.FromSettings(script.Settings{Rollout: script.Plan{Steps: []script.Step{{Percent: 20, Gate: g}}}}),
	})
	return wire.FromStatus(err)
}

// awaitWhy waits until the registry says that acme/route waits for this.
func (c *client) awaitWhy(t *testing.T, want string) {
	t.Helper()
	eventually(t, "it waits: "+want, func() bool {
		status, err := c.Status(t.Context(), &registryv1.StatusRequest{Tenant: "acme", Name: "route"})
		return err == nil && status.GetStatus().GetScripts()[0].GetTrials().GetWhy() == want
	})
}

// TestGates: a step waits for a webhook; each replica says for what, and the next leader goes on. A
// source that the file has no more is asked no more.
func TestGates(t *testing.T) {
	h := newHook(t, `{"pass": false, "reason": "a build is red"}`)
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	cfg.Gates = h.file(t)
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	first, one := start(t, cfg)
	crew.joins(t, one)
	leads(t, first)
	other := cfg
	other.Listen = []string{socket(dir(t))}
	second, two := start(t, other)

	ci := script.Gate{Kind: script.Webhook, Source: "ci"}
	one.publish(t, "route", "return 1")
	err := one.guard(t, "return 2", script.Gate{Kind: script.Webhook, Source: "other"})
	if e := script.AsError(err); e == nil || e.Kind != script.Invalid || e.Field != "settings.rollout.steps[0].gate" || !strings.Contains(e.Message, "no gate webhook/other for tenant acme: name one of webhook/ci") {
		t.Errorf("a source that there is not: %v", err)
	}
	if err := two.guard(t, "return 2", ci); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client{one, two} {
		c.awaitWhy(t, "gate webhook/ci: a build is red")
	}
	stop(t, first)
	leads(t, second)
	two.awaitWhy(t, "gate webhook/ci: a build is red")
	h.says(`{"pass": true, "reason": "all builds are green"}`)
	crew.sees(t, "live 1", "step 0: 0", "step 1: 2", "live 2")
	history, err := two.History(t.Context(), &registryv1.HistoryRequest{Tenant: "acme", Name: "route"})
	if err != nil {
		t.Fatal(err)
	}
	if note := history.GetEntries()[0].GetNote(); !strings.HasSuffix(note, "gate webhook/ci: all builds are green") {
		t.Errorf("it went live because %q", note)
	}

	if err := os.WriteFile(cfg.Gates, []byte(`sources: [{name: late, webhook: "https://127.0.0.1:1", tenants: ["*"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	version := 2
	eventually(t, "the file is read again", func() bool {
		version++
		return script.KindOf(two.guard(t, fmt.Sprint("return ", version), ci)) == script.Invalid
	})
}

// TestASourceIsRemoved while a candidate waits for it: it waits on, and says so.
func TestASourceIsRemoved(t *testing.T) {
	h := newHook(t, `{"pass": false}`)
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	cfg.Gates = h.file(t)
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	d, c := start(t, cfg)
	crew.joins(t, c)
	c.publish(t, "route", "return 1")
	if err := c.guard(t, "return 2", script.Gate{Kind: script.Webhook, Source: "ci"}); err != nil {
		t.Fatal(err)
	}
	c.awaitWhy(t, "gate webhook/ci: it says that the step does not pass yet")
	if _, metrics := admin(t, d, "/metrics"); !strings.Contains(metrics, `scriptorium_registry_gate_answers_total{result="wait",source="webhook/ci"} `) {
		t.Error("metrics lack the answer")
	}
	stop(t, d)
	h.mu.Lock()
	asked := h.asked
	h.mu.Unlock()
	cfg.Gates = ""
	_, c = start(t, cfg)
	c.awaitWhy(t, "gate webhook/ci: the registry that leads has no such source for tenant acme: its operator adds it to the file of registryd --gates")
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked != asked {
		t.Errorf("asked %d times more", h.asked-asked)
	}
}

// TestAPrometheusGate: with a real one.
func TestAPrometheusGate(t *testing.T) {
	server := prometheustest.Start(t)
	server.Expose(t, `error_ratio{script="acme/route",version="2"} 0.031`+"\n", "error_ratio", true)
	n := startNATS(t, 0)
	cfg := config(t, n.URL())
	cfg.Gates = file(t, "gates.yaml", fmt.Sprintf("sources: [{name: main, prometheus: %q, insecurePlaintext: true, tenants: ['*']}]", server.URL))
	crew := newCrew(t, newAgent(t, n.URL(), subjects(cfg)), passes)
	_, c := start(t, cfg)
	crew.joins(t, c)
	c.publish(t, "route", "return 1")
	g := script.Gate{Kind: script.Prometheus, Source: "main", Query: `max(error_ratio{script="$tenant/$script",version="$version"})`, Max: script.Bound{Set: true, Value: 0.01}}
	if err := c.guard(t, "return 2", g); err != nil {
		t.Fatal(err)
	}
	c.awaitWhy(t, "gate prometheus/main: the value is 0.031, want at most 0.01")
	server.Expose(t, `error_ratio{script="acme/route",version="2"} 0.004`+"\n", "error_ratio < 0.005", true)
	crew.sees(t, "live 1", "step 0: 0", "step 1: 2", "live 2")
}

// TestFilesOfGates: what the registry cannot use is refused at the start, and left alone later.
func TestFilesOfGates(t *testing.T) {
	const source = "sources: [{name: a, tenants: [a], webhook: 'https://127.0.0.1:1'%s}]"
	for _, tt := range []struct{ text, want string }{
		{"sources: []", "--gates: "},
		{fmt.Sprintf(source, ", tokenFile: /none"), "sources[0]: tokenFile: /none: cannot be read"},
		{fmt.Sprintf(source, ", caFile: /none"), "sources[0]: caFile: /none: cannot be read"},
		{fmt.Sprintf(source, ", tokenFile: "+open(t)), "has mode 0644"},
	} {
		cfg := config(t, "nats://127.0.0.1:1")
		cfg.Gates = file(t, "gates.yaml", tt.text)
		d, err := registryd.Start(t.Context(), cfg)
		if err == nil {
			stop(t, d)
		}
		if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), "--gates") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
	var log obstest.Output
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Gates = file(t, "gates.yaml", "sources: [{name: ci, tenants: [acme], webhook: 'http://127.0.0.1:1', insecurePlaintext: true}]")
	_, c := start(t, cfg)
	if !strings.Contains(log.String(), "a gate is not encrypted") {
		t.Errorf("the log does not say that it is not encrypted: %s", log.String())
	}
	if err := os.WriteFile(cfg.Gates, []byte("sources: 5"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says that the file is wrong", func() bool { return strings.Contains(log.String(), "the old sources stay") })
	if err := c.guard(t, "return 1", script.Gate{Kind: script.Webhook, Source: "ci"}); err != nil {
		t.Errorf("the old source: %v", err)
	}
}

// open returns the path of a secret that everybody can read.
func open(t *testing.T) string {
	t.Helper()
	path := file(t, "token", "secret")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
