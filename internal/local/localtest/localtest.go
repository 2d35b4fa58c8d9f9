// Package localtest has a registry with its etcd and NATS for a test, and publishes scripts there.
package localtest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/embed"
	"github.com/scriptorium-dev/scriptorium/internal/local"
)

// Patience bounds every wait of a test; nothing is measured by it.
const Patience = 30 * time.Second

// World is a registry, and a client of it.
type World struct {
	Stack    *local.Stack
	Registry *registryclient.Client
	Dir      string
}

// Start starts a registry and so many agents for the test.
func Start(tb testing.TB, agents int, opts ...local.Option) *World {
	tb.Helper()
	dir, err := os.MkdirTemp("", "sc") // t.TempDir is too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &World{Dir: dir}
	if w.Stack, err = local.Start(tb.Context(), dir, agents, Logger(tb), opts...); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := w.Stack.Stop(ctx); err != nil {
			tb.Error(err)
		}
	})
	if w.Registry, err = registryclient.Dial(w.Stack.RegistryTarget()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = w.Registry.Close() })
	return w
}

// Logger logs what goes wrong to the test.
func Logger(tb testing.TB) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

// Publish publishes a manifest, and waits until so many agents run it.
func (w *World) Publish(tb testing.TB, text string, agents int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	all, err := manifest.Parse("script.yaml", []byte(text), ".")
	if err != nil {
		tb.Fatal(err)
	}
	req := all[0].Publish()
	req.Author = "test"
	published, err := w.Registry.Publish(ctx, req)
	if err != nil {
		tb.Fatal(err)
	}
	if agents == 0 {
		return
	}
	for fleet, err := range w.Registry.WatchStatus(ctx, req.Name) {
		if err != nil {
			tb.Fatal(err)
		}
		for _, one := range fleet.Scripts {
			if one.Release.Revision >= published.Release.Revision && one.Converged && one.Active == agents {
				return
			}
		}
	}
}

// Manifest returns the manifest of a script of tenant acme, which has time also on a busy machine.
func Manifest(name, source string) string {
	return "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\nmetadata: {name: " + name + "}\nspec:\n  tenantId: acme\n  limits: {timeout: 1s}\n  source: |\n    " +
		strings.ReplaceAll(strings.TrimSpace(source), "\n", "\n    ") + "\n"
}

// Embedded returns how an agent in this process follows the registry.
func (w *World) Embedded(tb testing.TB, name string) embed.Config {
	tb.Helper()
	security := w.Stack.AgentSecurity()
	return embed.Config{
		Name: name, StateDir: filepath.Join(w.Dir, name), Registry: w.Stack.RegistryTarget(), NATS: []string{w.Stack.NATSURL()},
		TrustedKeys: security.TrustedKeys, InsecurePlaintext: true, NATSUser: security.NATS.User, NATSPasswordFile: security.NATS.PasswordFile,
		Logger: Logger(tb),
	}
}

// Embed starts such an agent for the test, and waits until it is ready.
func (w *World) Embed(tb testing.TB, name string) *embed.Agent {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	a, err := embed.Start(ctx, w.Embedded(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	if err := a.WaitReady(ctx); err != nil {
		tb.Fatal(err)
	}
	return a
}
