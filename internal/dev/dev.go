// Package dev is `scriptorium dev`: all of Scriptorium in one process, fed from
// a folder of manifests, for writing scripts and for trying it out.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a run.
type Config struct {
	Scripts string // folder of manifests
	State   string // folder that everything is kept in
	Agents  int
	Out     io.Writer
	Log     *slog.Logger
}

const (
	// startTime is how long the fleet may take to run what the folder says.
	startTime = 10 * time.Second
	// stopTime is how long calls in flight may take when it is stopped.
	stopTime = time.Second
)

// Run runs until ctx is done.
func Run(ctx context.Context, cfg Config) (err error) {
	if info, err := os.Stat(cfg.Scripts); err != nil || !info.IsDir() {
		return script.Errorf(script.Invalid, "--scripts", "%s is not a folder that can be read", cfg.Scripts)
	}
	if cfg.Agents < 1 {
		return script.Errorf(script.Invalid, "--agents", "is %d; at least 1", cfg.Agents)
	}
	stack, err := local.Start(ctx, cfg.State, cfg.Agents, cfg.Log)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err = errors.Join(err, stack.Stop(stop))
	}()
	client, err := registryclient.Dial(stack.RegistryTarget())
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	scripts, err := openFolder(cfg.Scripts, filepath.Join(cfg.State, "applied.json"), client, cfg.Log,
		func(err error) { fmt.Fprintln(cfg.Out, err) })
	if err != nil {
		return err
	}
	scripts.apply(ctx)
	start, err := settled(ctx, client, cfg.Agents)
	if err != nil {
		return ignoreDone(ctx, err)
	}
	banner(cfg, stack, start)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return scripts.watch(ctx) })
	g.Go(func() error { return announce(ctx, cfg, client, start) })
	return ignoreDone(ctx, g.Wait())
}

// ignoreDone returns nil for an error that only says that ctx is done.
func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || script.KindOf(err) == script.Timeout) {
		return nil
	}
	return err
}

// settled waits until every agent runs everything, or startTime is over: what
// fails then is announced.
func settled(ctx context.Context, client *registryclient.Client, agents int) (last registryclient.FleetStatus, err error) {
	wait, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for fleet, err := range client.WatchStatus(wait, script.Name{}) {
		if err != nil {
			if wait.Err() != nil && ctx.Err() == nil {
				return last, nil
			}
			return last, err
		}
		last = fleet
		done := len(fleet.Agents) >= agents
		for i := range fleet.Scripts {
			s := &fleet.Scripts[i]
			done = done && s.Waiting() == 0
		}
		if done {
			return fleet, nil
		}
	}
	return last, nil
}

func announce(ctx context.Context, cfg Config, client *registryclient.Client, start registryclient.FleetStatus) error {
	a := newAnnouncer(cfg.Out, start)
	for fleet, err := range client.WatchStatus(ctx, script.Name{}) {
		if err != nil {
			return err
		}
		a.hear(fleet)
	}
	return nil
}

// banner says in at most ten lines what runs and what to try.
func banner(cfg Config, stack *local.Stack, fleet registryclient.FleetStatus) {
	live := 0
	for i := range fleet.Scripts {
		if fleet.Scripts[i].Converged {
			live++
		}
	}
	fmt.Fprintf(cfg.Out, "scriptorium %s: etcd, NATS, a registry and %d agents, state in %s\n", version.String(), cfg.Agents, cfg.State)
	fmt.Fprintf(cfg.Out, "  registry  %s\n", stack.RegistryTarget())
	fmt.Fprintf(cfg.Out, "  agents    %s/{grpc,http,resp}.sock, and so on to agent-%d\n", stack.AgentDir(1), cfg.Agents)
	fmt.Fprintf(cfg.Out, "  scripts   %d of %d live on every agent; save a file in %s to change one\n", live, len(fleet.Scripts), cfg.Scripts)
	for i, line := range suggestions(cfg, stack, fleet) {
		label := ""
		if i == 0 {
			label = "try"
		}
		fmt.Fprintf(cfg.Out, "  %-8s  %s\n", label, line)
	}
}

// suggestions are commands that work when they are pasted into a shell in this
// folder, on this machine.
func suggestions(cfg Config, stack *local.Stack, fleet registryclient.FleetStatus) []string {
	const route = "acme/route" // of examples/scripts
	var lines []string
	if ctl, ok := scriptctl(); ok {
		if cfg.State != DefaultState {
			ctl += " --registry " + stack.RegistryTarget()
		}
		lines = append(lines, ctl+" status --watch")
	}
	for i := range fleet.Scripts {
		if fleet.Scripts[i].Release.Name.String() != route {
			continue
		}
		argument := `'{"path":"/api/cart","user":"42"}'`
		if _, err := exec.LookPath("redis-cli"); err == nil {
			lines = append(lines, fmt.Sprintf("redis-cli -s %s/resp.sock FCALL %s 0 %s", stack.AgentDir(1), route, argument))
		}
		if _, err := exec.LookPath("curl"); err == nil {
			lines = append(lines, fmt.Sprintf("curl --unix-socket %s/http.sock -d %s http://agent/v1/execute/%s", stack.AgentDir(1), argument, route))
		}
	}
	return lines
}

// scriptctl returns how to call the scriptctl that was built beside this
// program, from the current folder.
func scriptctl() (string, bool) {
	self, err := os.Executable()
	if err != nil {
		return "", false
	}
	path := filepath.Join(filepath.Dir(self), "scriptctl")
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	here, err := os.Getwd()
	if err != nil {
		return path, true
	}
	if relative, err := filepath.Rel(here, path); err == nil && len(relative) < len(path) {
		return relative, true
	}
	return path, true
}
