// Package dev is `scriptorium dev`: all of Scriptorium in one process, fed from
// a folder of manifests, for writing scripts and for trying it out.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/debugsock"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of a run.
type Config struct {
	Scripts   string // folder of manifests
	State     string // folder that everything is kept in
	Agents    int
	Gates     string              // file, as for registryd --gates; "" for none
	Console   string              // loopback host:port of the console; "" for none
	Artifacts registryd.Artifacts // that publishes may name
	Workers   []string            // see local.WithWorkers
	Out       io.Writer
	Debug     debugsock.Options
	Log       *slog.Logger

	dial                []registryclient.Option // of the registry; a test sets them
	startTime, stopTime time.Duration           // 0 means the constants; a test on a busy machine waits longer
}

const (
	// startTime is how long the fleet may take to run what the folder says.
	startTime = 10 * time.Second
	// stopTime is how long everything may take when it is stopped, and calls in flight a third of it.
	stopTime = 1500 * time.Millisecond
)

// Run runs until ctx is done.
func Run(ctx context.Context, cfg Config) (err error) {
	if info, err := os.Stat(cfg.Scripts); err != nil || !info.IsDir() {
		return script.Errorf(script.Invalid, "--scripts", "%s is not a folder that can be read: name a folder of manifests, or copy examples/scripts there", cfg.Scripts)
	}
	if cfg.Agents < 1 {
		return script.Errorf(script.Invalid, "--agents", "is %d; at least 1", cfg.Agents)
	}
	closeDebug, err := cfg.Debug.Serve(cfg.Log)
	if err != nil {
		return err
	}
	defer closeDebug()
	cfg.Out = &lineWriter{to: cfg.Out}
	progress := startProgress(cfg.Out)
	silence := sync.OnceFunc(progress.stop)
	defer silence()
	progress.waitFor("starting etcd, NATS, a registry and %d agents", cfg.Agents)
	stack, err := local.Start(ctx, cfg.State, cfg.Agents, cfg.Log, local.WithWorkers(cfg.Workers...), local.WithGates(cfg.Gates), local.WithArtifacts(cfg.Artifacts))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stop(context.WithoutCancel(ctx), stack, cmp.Or(cfg.stopTime, stopTime), cfg.Log))
	}()
	client, err := registryclient.Dial(stack.RegistryTarget(), cfg.dial...)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	scripts, err := openFolder(cfg.Scripts, filepath.Join(cfg.State, "applied.json"), client, cfg.Log,
		func(text string) { fmt.Fprintln(cfg.Out, text) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scripts.memory.close()) }()
	scripts.start(ctx, progress)
	fleet, err := await(ctx, client, cfg.Agents, cmp.Or(cfg.startTime, startTime), progress)
	if err != nil {
		return ignoreDone(ctx, err)
	}
	web, err := startConsole(ctx, cfg, stack.RegistryTarget())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, web.stop(context.WithoutCancel(ctx))) }()
	silence()
	fleet.printTroubles(cfg.Out)
	banner(cfg, stack, fleet, web)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return scripts.watch(ctx) })
	g.Go(func() error { return announce(ctx, cfg, client, fleet) })
	return ignoreDone(ctx, g.Wait())
}

// stop stops the stack, and gives up when that takes too long: a person waits,
// and whatever was acknowledged is on disk.
func stop(ctx context.Context, stack *local.Stack, within time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, within/3)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- stack.Stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-time.After(within):
		log.Warn("not everything stopped in time; leaving it", "waited", within.String())
		return nil
	}
}

// ignoreDone returns nil for an error that only says that ctx is done.
func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || script.KindOf(err) == script.Timeout) {
		return nil
	}
	return err
}

// await waits until every agent runs everything, or it is known why not, or the time is over.
func await(ctx context.Context, client *registryclient.Client, agents int, within time.Duration, p *progress) (*overview, error) {
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	fleet := newOverview()
	for change, err := range client.FollowChanges(wait, script.Name{}, func(error) {}) {
		if err != nil {
			if wait.Err() != nil && ctx.Err() == nil {
				return fleet, nil
			}
			return fleet, err
		}
		fleet.take(change)
		what := fleet.waitsFor(agents)
		if what == "" {
			return fleet, nil
		}
		p.waitFor("%s", what)
	}
	return fleet, nil
}

func announce(ctx context.Context, cfg Config, client *registryclient.Client, start *overview) error {
	a := newAnnouncer(cfg.Out, start, func(name script.Name) (registryclient.ScriptStatus, error) {
		fleet, err := client.Status(ctx, name)
		if err != nil {
			return registryclient.ScriptStatus{}, err
		}
		return fleet.Scripts[0], nil
	})
	away := func(err error) { cfg.Log.WarnContext(ctx, "the registry does not answer; trying again", "error", err) }
	for change, err := range client.FollowChanges(ctx, script.Name{}, away) {
		if err != nil {
			return err
		}
		a.hear(change)
	}
	return nil
}

// banner says in at most ten lines what runs and what to try.
func banner(cfg Config, stack *local.Stack, fleet *overview, web *webConsole) {
	live := 0
	for name := range fleet.scripts {
		if s := fleet.scripts[name]; s.Converged || s.Release.Candidate != nil && s.Active == fleet.connected {
			live++
		}
	}
	fmt.Fprintf(cfg.Out, "scriptorium %s: etcd, NATS, a registry and %d of %d agents, state in %s\n",
		version.String(), fleet.connected, cfg.Agents, cfg.State)
	fmt.Fprintf(cfg.Out, "  registry  %s\n", stack.RegistryTarget())
	agents := stack.AgentDir(1) + "/{grpc,http,resp}.sock"
	if cfg.Agents > 1 {
		agents += fmt.Sprintf(", and so on to agent-%d", cfg.Agents)
	}
	fmt.Fprintf(cfg.Out, "  agents    %s\n", agents)
	fmt.Fprintf(cfg.Out, "  scripts   %d of %d live on every agent; save a manifest in %s to add or change one\n", live, len(fleet.scripts), cfg.Scripts)
	if web != nil {
		fmt.Fprintf(cfg.Out, "  console   %s; sign in with the code %s\n", web.URL(), web.firstCode())
	}
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
func suggestions(cfg Config, stack *local.Stack, fleet *overview) []string {
	route := script.Name{Tenant: "acme", Script: "route"} // of examples/scripts
	var lines []string
	if ctl, ok := scriptctl(); ok {
		if _, elsewhere := os.LookupEnv("SCRIPTORIUM_REGISTRY"); elsewhere || cfg.State != DefaultState {
			ctl += " --registry " + quote(stack.RegistryTarget())
		}
		lines = append(lines, ctl+" status --watch")
	}
	if _, ok := fleet.scripts[route]; !ok {
		return lines
	}
	argument := `'{"path":"/api/cart"}'`
	if _, err := exec.LookPath("redis-cli"); err == nil {
		lines = append(lines, fmt.Sprintf("redis-cli -s %s FCALL %s 0 %s", quote(stack.AgentDir(1)+"/resp.sock"), route, argument))
	}
	if _, err := exec.LookPath("curl"); err == nil {
		lines = append(lines, fmt.Sprintf(`curl -w '\n' --unix-socket %s -d %s http://agent/v1/execute/%s`, quote(stack.AgentDir(1)+"/http.sock"), argument, route))
	}
	return lines
}

// quote quotes a word for a shell, if it needs that.
func quote(word string) string {
	if strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/.:_-", r) && (r > 'z' || r < '0' || (r > '9' && r < 'A') || (r > 'Z' && r < 'a'))
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
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
		return quote(path), true
	}
	relative, err := filepath.Rel(here, path)
	if err != nil || len(relative) > len(path) {
		return quote(path), true
	}
	if !strings.Contains(relative, "/") {
		relative = "./" + relative
	}
	return quote(relative), true
}
