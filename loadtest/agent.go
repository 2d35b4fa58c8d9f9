package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/execute"
	"github.com/scriptorium-dev/scriptorium/agent/garbage"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/spopsock"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The script that is measured, and the argument of each call.
const (
	routeRef = "acme/route"
	routeArg = `{"method":"GET","path":"/api/cart","host":"shop.example","user":"u-4711","country":"de"}`
)

//go:embed route.lua
var routeSource []byte

// spinSources are scripts of neighbours, by name.
var spinSources = map[string][]byte{
	"loop":   []byte("function handle() while true do end end"),
	"litter": []byte("function handle() local t while true do t = { {}, {} } end end"),
}

// neighbour returns the reference of the i-th neighbour's script.
func neighbour(i int, spin string) string { return fmt.Sprintf("neighbour-%d/%s", i, spin) }

// newAgentCommand is the process under test: an agent's executor and sockets,
// with the one script, and no registry. It ends when its standard input does, so
// that it never outlives the driver.
func newAgentCommand() *cobra.Command {
	var dir, profile, gate string
	var admission bool
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "Serve the scripts under test until standard input ends",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile != "" {
				file, err := os.Create(profile)
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }()
				if err := pprof.StartCPUProfile(file); err != nil {
					return err
				}
				defer pprof.StopCPUProfile()
			}
			garbage.LeaveRoom(cmd.Context())
			return serveAgent(cmd.Context(), dir, gate, admission, cmd.InOrStdin())
		},
	}
	cmd.Flags().StringVar(&dir, "socket-dir", "", "folder of the sockets")
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile to this file")
	cmd.Flags().StringVar(&gate, "gate", "", "file with the source of acme/gate, if it is served, too")
	cmd.Flags().BoolVar(&admission, "admission", true, "admit calls as an agent does")
	return cmd
}

type server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

func serveAgent(ctx context.Context, dir, gate string, admission bool, until io.Reader) error {
	executor, err := newExecutor(gate, admission)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	servers := map[string]server{
		"resp.sock": respsock.New(respsock.Options{Executor: executor, Logger: logger}),
		"http.sock": httpsock.New(httpsock.Options{Executor: executor, Logger: logger}),
		"grpc.sock": grpcsock.New(grpcsock.Options{Executor: executor, Logger: logger}),
		"spop.sock": spopsock.New(spopsock.Options{Executor: executor, Logger: logger}),
	}
	var serving errgroup.Group
	for name, s := range servers {
		l, err := gateway.Listen(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		serving.Go(func() error { return s.Serve(l) })
	}
	_, _ = io.Copy(io.Discard, until)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, s := range servers {
		_ = s.Shutdown(ctx) // connections that are still open end with the process
	}
	_ = serving.Wait() // says that they were shut down
	return nil
}

// newExecutor returns the executor of an agent that has the one script, those of its
// neighbours, and acme/gate if there is a file with its source.
func newExecutor(gate string, admission bool) (gateway.Executor, error) {
	table, from := cache.NewTable(), sources{}
	table.Update([]*cache.Release{from.add("acme/route", routeSource, script.Limits{})}, nil)
	if gate != "" {
		source, err := os.ReadFile(gate)
		if err != nil {
			return nil, err
		}
		table.Update([]*cache.Release{from.add("acme/gate", source, script.Limits{})}, nil)
	}
	for name, source := range spinSources {
		limits := script.Limits{Instructions: script.MaxLimits().Instructions}
		for i := range maxNeighbours {
			table.Update([]*cache.Release{from.add(neighbour(i, name), source, limits)}, nil)
		}
	}
	programs := cache.NewPrograms(cache.Config{
		Engines: map[string]engine.Engine{"lua": lua.New()},
		Sources: from,
		Budget:  64 << 20,
	})
	if !admission {
		return newUnadmitted(table, programs), nil
	}
	return execute.New(execute.Config{Table: table, Programs: programs, Position: position})
}

// sources are what the scripts are compiled from.
type sources map[script.Digest][]byte

// add adds a source and returns a release of it as the script "tenant/name".
func (s sources) add(ref string, source []byte, limits script.Limits) *cache.Release {
	version := script.Version{
		Number: 1, Digest: script.DigestOf(source), Engine: "lua", Entrypoint: "handle", Size: len(source),
	}
	s[version.Digest] = source
	tenant, name, _ := strings.Cut(ref, "/")
	return cache.NewRelease(script.Release{
		Name:     script.Name{Tenant: tenant, Script: name},
		Revision: 1, Active: version, Latest: 1, Enabled: true, Retained: []script.Version{version},
		Settings: script.Settings{Spec: script.Spec{Limits: limits}},
	})
}

// Source is cache.Sources'.
func (s sources) Source(_ context.Context, d script.Digest) ([]byte, error) { return s[d], nil }

// startAgent starts this program again as the agent, on sockets in dir.
func startAgent(ctx context.Context, dir string, flags ...string) (stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{"agent", "--socket-dir", dir}, flags...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	stop = func() error {
		_ = stdin.Close()
		return cmd.Wait()
	}
	for _, name := range []string{"resp.sock", "http.sock", "grpc.sock"} {
		if err := waitForSocket(ctx, filepath.Join(dir, name)); err != nil {
			return nil, errors.Join(fmt.Errorf("the agent did not come up: %w", err), stop())
		}
	}
	return stop, nil
}

// waitForSocket waits until somebody answers on the socket, at most ten seconds.
func waitForSocket(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
