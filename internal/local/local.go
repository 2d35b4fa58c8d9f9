// Package local runs all of Scriptorium on one machine, from the same parts that
// run in production: etcd, NATS, a registry, and agents. It is what `scriptorium
// dev`, the demo and the integration tests stand on. Each part can be stopped
// and started again by itself.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/embedded"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Stack is a registry with its etcd and NATS, and agents. Its methods are not
// safe for concurrent use.
type Stack struct {
	dir    string
	log    *slog.Logger
	lock   *os.File
	secret secrets
	fleet  string
	agents map[int]*agentd.Daemon
	traces map[string]*tracing.Tracing // by the part

	workers    agentd.Workers
	tenantKeys string
	change     func(*agentd.Config)    // of agents; may be nil
	configure  func(*registryd.Config) // of the registry; may be nil
	gates      string
	artifacts  registryd.Artifacts
	etcd       *embedded.Etcd
	nats       *embedded.NATS
	natsPort   int // kept, so that NATS comes back where clients look for it
	registry   *registryd.Daemon
}

// Start starts etcd, NATS, a registry, and as many agents, with their state in
// dir: a stack that was there before continues where it was.
func Start(ctx context.Context, dir string, agents int, log *slog.Logger, opts ...Option) (*Stack, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := takeLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	s := &Stack{dir: dir, log: log, lock: lock, secret: secrets{dir: dir}, agents: map[int]*agentd.Daemon{}, traces: map[string]*tracing.Tracing{}}
	for _, opt := range opts {
		opt(s)
	}
	if err := s.start(ctx, agents); err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stop))
	}
	return s, nil
}

// Option of a Stack.
type Option func(*Stack)

// WithWorkers gives isolated tenants processes of their own: see
// agentd.Workers.Command.
func WithWorkers(command ...string) Option {
	return func(s *Stack) {
		s.workers = agentd.Workers{Command: command}
	}
}

// WithTenantKeys has agents require the signatures of tenants' publishers: see
// node.Security.TenantKeys.
func WithTenantKeys(file string) Option { return func(s *Stack) { s.tenantKeys = file } }

// WithAgents changes the configurations of agents before they start.
func WithAgents(change func(*agentd.Config)) Option {
	return func(s *Stack) { s.change = change }
}

// WithRegistry changes the configuration of the registry.
func WithRegistry(change func(*registryd.Config)) Option {
	return func(s *Stack) { s.configure = change }
}

// WithGates has rollouts ask the sources in the file: see registryd.Config.Gates.
func WithGates(file string) Option { return func(s *Stack) { s.gates = file } }

// WithNATSPort has NATS listen at the port, instead of any that is free. A test that stops NATS reserves the port.
func WithNATSPort(port int) Option { return func(s *Stack) { s.natsPort = port } }

// WithArtifacts has the registry fetch sources: see registryd.Config.Artifacts.
func WithArtifacts(a registryd.Artifacts) Option { return func(s *Stack) { s.artifacts = a } }

// takeLock keeps two stacks from one folder. The lock ends with the process.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(script.Errorf(script.Invalid, "--state",
			"%s is in use by another process; stop that one, or name another folder", filepath.Dir(path)), f.Close())
	}
	return f, nil
}

func (s *Stack) start(ctx context.Context, agents int) error {
	if err := s.secret.prepare(); err != nil {
		return fmt.Errorf("make the keys of the stack: %w", err)
	}
	if err := s.StartEtcd(ctx); err != nil {
		return err
	}
	if err := s.found(ctx); err != nil {
		return err
	}
	if err := s.StartNATS(ctx); err != nil {
		return err
	}
	if err := s.StartRegistry(ctx); err != nil {
		return err
	}
	for i := range agents {
		if err := s.StartAgent(i + 1); err != nil {
			return err
		}
	}
	return nil
}

// RegistryTarget is where the registry's gRPC API is.
func (s *Stack) RegistryTarget() string { return "unix:" + filepath.Join(s.dir, "registry.sock") }

// AgentDir is the folder of an agent, from 1, and of its sockets.
func (s *Stack) AgentDir(i int) string { return filepath.Join(s.dir, agentName(i)) }

// EtcdEndpoint is where etcd is, for tests that write to it past the registry.
func (s *Stack) EtcdEndpoint() string { return s.etcd.Endpoint() }

// NATSURL is where NATS is, running or not.
func (s *Stack) NATSURL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.natsPort) }

func agentName(i int) string { return fmt.Sprintf("agent-%d", i) }

// StartEtcd starts etcd on the data that it had.
func (s *Stack) StartEtcd(ctx context.Context) (err error) {
	s.etcd, err = embedded.StartEtcd(ctx, embedded.EtcdConfig{Dir: filepath.Join(s.dir, "etcd"), Private: true, Log: s.log})
	return err
}

// StopEtcd stops etcd, as an outage does.
func (s *Stack) StopEtcd() {
	if s.etcd != nil {
		s.etcd.Stop()
		s.etcd = nil
	}
}

// StartNATS starts NATS, where it was before if it was.
func (s *Stack) StartNATS(ctx context.Context) (err error) {
	s.nats, err = embedded.StartNATS(ctx, embedded.NATSConfig{Port: s.natsPort, User: natsUser, Password: s.secret.password, Log: s.log})
	if err != nil {
		return err
	}
	s.natsPort = s.nats.Port()
	return nil
}

// StopNATS stops NATS, as an outage does.
func (s *Stack) StopNATS() {
	if s.nats != nil {
		s.nats.Stop()
		s.nats = nil
	}
}

// StartRegistry starts the registry on the etcd and NATS there are.
func (s *Stack) StartRegistry(ctx context.Context) (err error) {
	cfg := s.registryConfig()
	cfg.Fleet = s.fleet
	if s.configure != nil {
		s.configure(&cfg)
	}
	if cfg.Tracing, err = s.openTraces(ctx, "scriptorium-registry", "registry"); err != nil {
		return err
	}
	s.registry, err = registryd.Start(ctx, cfg)
	if err != nil {
		return err
	}
	if s.registry.Unavailable() != nil {
		return script.Errorf(script.Unavailable, "--state", "etcd in %s does not have the data of fleet %s: "+
			"restore them from a backup, or remove %s to start again", s.dir, s.fleet, s.dir)
	}
	return nil
}

func (s *Stack) registryConfig() registryd.Config {
	return registryd.Config{
		EtcdEndpoints: []string{s.etcd.Endpoint()},
		NATS:          []string{s.NATSURL()},
		Listen:        []string{s.RegistryTarget()},
		Security:      s.secret.registry(),
		Gates:         s.gates,
		Artifacts:     s.artifacts,
		Log:           s.log.With("part", "registry"),
		Metrics:       obs.NewMetrics(),
	}
}

// found founds the fleet of the stack once. The file fleet, beside etcd's folder, notes
// which it is: if etcd loses its data, the stack refuses to start, and agents keep theirs.
func (s *Stack) found(ctx context.Context) error {
	mark := filepath.Join(s.dir, "fleet")
	known, err := os.ReadFile(mark)
	if err == nil {
		s.fleet = strings.TrimSpace(string(known))
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.fleet, _, err = registryd.Found(ctx, s.registryConfig()); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(s.fleet+"\n"), 0o644)
}

// StopRegistry stops the registry, waiting for calls in flight until ctx is done.
func (s *Stack) StopRegistry(ctx context.Context) error {
	if s.registry == nil {
		return nil
	}
	err := s.registry.Stop(ctx)
	s.registry = nil
	s.closeTraces("registry")
	return err
}

// StartAgent starts agent i, from 1, on what it had on disk.
func (s *Stack) StartAgent(i int) error {
	name := agentName(i)
	security := s.secret.agent()
	security.TenantKeys = s.tenantKeys
	cfg := agentd.Config{
		Name:     name,
		StateDir: filepath.Join(s.AgentDir(i), "state"), SocketDir: s.AgentDir(i),
		Registry: s.RegistryTarget(), NATS: []string{s.NATSURL()}, Security: security, Workers: s.workers,
		Log:     s.log.With("part", name),
		Metrics: obs.NewMetrics(),
	}
	var err error
	if cfg.Tracing, err = s.openTraces(context.Background(), "scriptorium-agent", name); err != nil {
		return err
	}
	if s.change != nil {
		s.change(&cfg)
	}
	a, err := agentd.Start(cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.agents[i] = a
	return nil
}

// StopAgent stops agent i, waiting for calls in flight until ctx is done.
func (s *Stack) StopAgent(ctx context.Context, i int) error {
	a := s.agents[i]
	if a == nil {
		return nil
	}
	delete(s.agents, i)
	err := a.Stop(ctx)
	s.closeTraces(agentName(i))
	return err
}

// openTraces has the part export its spans as the environment says.
func (s *Stack) openTraces(ctx context.Context, service, part string) (t *tracing.Tracing, err error) {
	t, err = tracing.Open(ctx, tracing.Config{Service: service, Instance: part, Log: s.log.With("part", part)})
	if err == nil {
		s.traces[part] = t
	}
	return t, err
}

// closeTraces exports what the part has recorded.
func (s *Stack) closeTraces(part string) {
	if t := s.traces[part]; t != nil {
		t.Close()
		delete(s.traces, part)
	}
}

// Stop stops everything, agents first.
func (s *Stack) Stop(ctx context.Context) error {
	var g errgroup.Group
	for _, a := range s.agents {
		g.Go(func() error { return a.Stop(ctx) })
	}
	errs := []error{g.Wait(), s.StopRegistry(ctx)}
	for part := range s.traces {
		s.closeTraces(part)
	}
	s.agents = nil
	s.StopNATS()
	s.StopEtcd()
	return errors.Join(append(errs, s.lock.Close())...)
}
