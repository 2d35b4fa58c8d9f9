// Package gateways_test runs the configurations of docs/gateways: each with the real gateway, an
// agent with the script of the pages, and an application behind the gateway.
package gateways_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	pages    = "../../../docs/gateways/"
	patience = 30 * time.Second // bounds every wait; nothing is measured by it
)

// oneWaits has the agent refuse calls without a wait for its turns, once one waits.
func oneWaits(cfg *agentd.Config) { cfg.MaxWaiting = 1 }

// world is an agent with the script of the pages, and an application.
type world struct {
	t        *testing.T
	stack    *local.Stack
	registry *registryclient.Client
	sockets  string // the agent's folder of sockets
	app      *httptest.Server
	source   string       // the manifest of the pages
	served   atomic.Int64 // requests that the application has got
	agents   int          // that run the script, those in a gateway's own process included
}

func newWorld(t *testing.T, opts ...local.Option) *world {
	t.Helper()
	return newWorldWith(t, 1, opts...)
}

// newWorldWith returns a world with so many agents, of which the first serves gateways.
func newWorldWith(t *testing.T, agents int, opts ...local.Option) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, agents: agents}
	w.app = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.app.Close)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	opts = append([]local.Option{local.WithAgents(oneWaits)}, opts...)
	if w.stack, err = local.Start(t.Context(), dir, agents, log, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	w.sockets = w.stack.AgentDir(1)
	if w.registry, err = registryclient.Dial(w.stack.RegistryTarget()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.registry.Close() })
	text, err := os.ReadFile(pages + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	w.source = page.Blocks(string(text), "yaml")[0]
	w.publish(w.source)
	return w
}

// serve is the application: it says what it got.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.served.Add(1)
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(rw, "%s %s for %s: %s", r.Method, r.RequestURI, strings.Join(r.Header.Values("X-User"), "+"), body)
	if r.Header.Get("X-Gone") != "" {
		_, _ = io.WriteString(rw, "(gone)")
	}
}

// publish publishes a manifest, and waits until the agents run it: for all calls, or for those that a step
// of its rollout takes.
func (w *world) publish(text string) script.Ref {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	all, err := manifest.Parse("gate.yaml", []byte(text), ".")
	if err != nil {
		w.t.Fatal(err)
	}
	req := all[0].Publish()
	req.Author = "test"
	published, err := w.registry.Publish(ctx, req)
	if err != nil {
		w.t.Fatal(err)
	}
	ref := script.Ref{Name: req.Name, Version: published.Version.Number}
	if w.agents == 0 {
		return ref
	}
	for fleet, err := range w.registry.WatchStatus(ctx, req.Name) {
		if err != nil {
			w.t.Fatal(err)
		}
		for _, one := range fleet.Scripts {
			if one.Release.Revision < published.Release.Revision {
				continue
			}
			if one.Converged && one.Active == w.agents || one.Trials != nil && one.Trials.Running == w.agents {
				return ref
			}
		}
	}
	w.t.Fatalf("the status of %s ended", ref)
	return ref
}

// remove deletes the script of the pages.
func (w *world) remove() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if _, err := w.registry.Delete(ctx, script.Name{Tenant: "acme", Script: "gate"}, registryclient.Write{Author: "test"}); err != nil {
		w.t.Fatal(err)
	}
}

// stopAgent has the gateway live without an agent.
func (w *world) stopAgent() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.stack.StopAgent(ctx, 1); err != nil {
		w.t.Fatal(err)
	}
}

// patient returns the text with a longer timeout in place of the page's: a machine that is busy with other
// tests is no fault of the gateway's.
func (w *world) patient(text, timeout, longer string) string {
	w.t.Helper()
	if !strings.Contains(text, timeout) {
		w.t.Fatalf("the page has no %q:\n%s", timeout, text)
	}
	return strings.ReplaceAll(text, timeout, longer)
}

// change to a configuration of a page, before a gateway gets it.
type change func(config string) string

// asItIs changes nothing.
func asItIs(config string) string { return config }

// configured returns the page's configuration in that language with the words in it, for this world.
func (w *world) configured(file, language, words, address string) string {
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
	for from, to := range map[string]string{"/run/scriptorium": w.sockets, "127.0.0.1:9000": w.app.Listener.Addr().String(), "8080": port} {
		if !strings.Contains(block, from) {
			w.t.Fatalf("%s has no %s", file, from)
		}
		block = strings.ReplaceAll(block, from, to)
	}
	return block
}

// run starts a gateway, and waits until it listens at the address.
func (w *world) run(address string, command ...string) {
	w.t.Helper()
	needs.Command(w.t, command[0], command[0])
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+w.t.TempDir())
	cmd.Stdout, cmd.Stderr = w.t.Output(), w.t.Output()
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
		}
	})
	w.awaitListener(address, ended)
}

// awaitListener waits until a gateway listens, or the process has ended, if it is not nil.
func (w *world) awaitListener(address string, ended chan error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			w.t.Fatalf("the gateway ended: %v", err)
		case <-ctx.Done():
			w.t.Fatalf("nobody listens at %s", address)
		}
	}
}
