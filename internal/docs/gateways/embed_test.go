package gateways_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// inProcess is the section with the table of gateways that have an agent in them.
const inProcess = "In the gateway's own process"

// withAgent returns the page's block with the words in it, for this world: its agent follows the
// registry here, over connections that are not encrypted, as what comes after … allows.
func (w *world) withAgent(file, language, words, address, plaintext string) string {
	w.t.Helper()
	text, err := os.ReadFile(pages + file)
	if err != nil {
		w.t.Fatal(err)
	}
	block, err := page.Find(page.Blocks(string(text), language), words)
	if err != nil {
		w.t.Fatalf("%s: %v", file, err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		w.t.Fatal(err)
	}
	security := w.stack.AgentSecurity()
	after, insecure, _ := strings.Cut(plaintext, "…")
	changes := []string{
		"registry.internal:7070", w.stack.RegistryTarget(), "tls://nats.internal:4222", w.stack.NATSURL(),
		"/etc/scriptorium/registry.pub", security.TrustedKeys[0], "/etc/scriptorium/nats-password", security.NATS.PasswordFile,
		"gateway-agent", security.NATS.User, "/var/lib/gateway", filepath.Join(w.t.TempDir(), "state"),
		"127.0.0.1:9000", w.app.Listener.Addr().String(), "8080", port, after, after + insecure,
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(block, changes[i]) {
			w.t.Fatalf("%s has no %s", file, changes[i])
		}
	}
	return strings.NewReplacer(changes...).Replace(block)
}

// TestGoAsks runs the programs of the page, with an agent in them and beside them.
func TestGoAsks(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, 0)
	address := porttest.Address(t)
	byEvent := w.runGo(t, address, w.withAgent("go.md", "go", "embed.Start", address, "embed.Config{…InsecurePlaintext: true, MaxWaiting: 1,"))
	w.agents = 1
	w.publish(w.source)
	w.conform(t, address, nil)
	w.tableOf(t, address, inProcess, "Go")
	w.events(t, byEvent, w.columnOf(t, inProcess, "Go"))
	w.closed(t, address, w.columnOf(t, inProcess, "Go"))
}

// TestGoAsksASocket runs the page's program that asks an agent beside it.
func TestGoAsksASocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address := porttest.Address(t)
	byEvent := w.runGo(t, address, w.configured("go.md", "go", "agent := middleware.NewSocket", address))
	w.conform(t, address, nil)
	w.tableOf(t, address, inProcess, "Go")
	cells := w.columnOf(t, inProcess, "Go")
	w.events(t, byEvent, cells)
	cells["the agent is gone"] = "503"
	w.closed(t, address, cells)
}

// runGo builds and starts a program. At the second address it asks for the chain, as README.md says, with the same agent.
func (w *world) runGo(t *testing.T, address, source string) (byEvent string) {
	t.Helper()
	byEvent = porttest.Address(t)
	serve := strings.LastIndex(source, "\tlog.Fatal(http.ListenAndServe(")
	if serve < 0 {
		t.Fatalf("the program does not serve:\n%s", source)
	}
	rule := w.byEvent("RULE", `middleware.Rule{Script: "event=pre-route/acme", Key: "request.cookies.user"}`)("RULE")
	source = source[:serve] + "\tbyEvent, err := middleware.New(agent, " + rule + ")\n\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n" +
		"\tgo http.ListenAndServe(\"" + byEvent + "\", byEvent.Handler(app))\n" + source[serve:]
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "gateway")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s\n%s", err, out, source)
	}
	w.run(address, program)
	w.awaitListener(byEvent, nil)
	return byEvent
}

// TestGoBlocks compiles the other Go of the page.
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(pages + "go.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range page.Blocks(string(text), "go") {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
			t.Errorf("go vet: %v\n%s\n%s", err, out, block)
		}
	}
}

// TestCaddyModule runs the page's configuration with a Caddy that has the module.
func TestCaddyModule(t *testing.T) {
	t.Parallel()
	needs.Time(t, "it links all of Caddy")
	program := filepath.Join(t.TempDir(), "caddy")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "../../../gateways/caddy", "build", "-ldflags=-s -w", "-o", program, "./cmd/caddy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	w := newWorldWith(t, 0)
	address := porttest.Address(t)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := w.withAgent("caddy.md", "caddyfile", "trusted_key", address, "\tscriptorium {\n…\t\tinsecure_plaintext\n\t\tmax_waiting 1\n")
	config = strings.Replace(config, "{\n", "{\n\tadmin off\n", 1)
	byEvent := porttest.Address(t)
	second := w.byEvent("ASK", "scriptorium event=pre-route/acme", "KEY", "key request.cookies.user")("http://" + byEvent + " {\n\tASK {\n\t\tKEY\n\t}\n")
	config += second + "\treverse_proxy " + w.app.Listener.Addr().String() + "\n}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(address, program, "run", "--adapter", "caddyfile", "--config", file)
	w.agents = 1
	w.publish(w.source)
	w.conform(t, address, nil)
	w.tableOf(t, address, inProcess, "Caddy")
	w.events(t, byEvent, w.columnOf(t, inProcess, "Caddy"))
	w.closed(t, address, w.columnOf(t, inProcess, "Caddy"))
}
