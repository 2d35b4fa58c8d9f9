package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/cluster"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stackConfig says what a stack consists of.
type stackConfig struct {
	registries int
	signed     bool   // what the registries say
	profile    string // file for the CPU profile of the first registry; none if empty
}

// stack is etcd, NATS and registries, each a process of its own.
type stack struct {
	dir       string
	self      string // this program
	nats      string // URL
	registry  []string
	clients   []*registryclient.Client // of each registry
	processes []*cluster.Process       // in the order in which they were started
	trusted   string                   // file of the key that registries sign by; none if empty
	ports     *cluster.Ports
	profiled  bool
}

// How long servers may take.
const (
	stackStart = time.Minute
	stackStop  = 10 * time.Second
)

// startStack starts the servers and waits until they serve. The caller closes it.
func startStack(ctx context.Context, cfg stackConfig) (s *stack, err error) {
	s = &stack{ports: cluster.NewPorts(), profiled: cfg.profile != ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.self, err = os.Executable(); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "loadtest"); err != nil {
		return s, err
	}
	if err := os.Mkdir(filepath.Join(s.dir, "log"), 0o755); err != nil {
		return s, err
	}
	etcd, err := s.serve(ctx, "etcd", "--dir", filepath.Join(s.dir, "etcd"))
	if err != nil {
		return s, err
	}
	founding := registryd.Config{
		EtcdEndpoints: []string{"http://" + etcd}, Security: registryd.Security{InsecurePlaintext: true}, Log: slog.New(slog.DiscardHandler),
	}
	if _, _, err := registryd.Found(ctx, founding); err != nil {
		return s, err
	}
	if s.nats, err = s.serve(ctx, "nats"); err != nil {
		return s, err
	}
	if err := s.awaitNATS(ctx); err != nil {
		return s, err
	}
	s.nats = "nats://" + s.nats
	for i := range cfg.registries {
		if err := s.startRegistry(ctx, i, etcd, cfg); err != nil {
			return s, err
		}
	}
	return s, s.awaitRegistries(ctx)
}

// serve starts a server that listens on a port, and returns its address.
func (s *stack) serve(ctx context.Context, name string, args ...string) (string, error) {
	address, err := s.ports.Take(ctx)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	return address, s.start(name, append([]string{name, "--port", port}, args...)...)
}

// start starts this program again.
func (s *stack) start(name string, args ...string) error {
	p := cluster.NewProcess(s.dir, name, s.self, args, nil)
	if err := p.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return nil
}

func (s *stack) startRegistry(ctx context.Context, i int, etcd string, cfg stackConfig) error {
	address, err := s.ports.Take(ctx)
	if err != nil {
		return err
	}
	args := []string{
		"registryd", "--listen", address, "--admin-address", "127.0.0.1:0", "--etcd-endpoints", "http://" + etcd, "--nats-url", s.nats,
		"--insecure-plaintext", "--insecure-anonymous", "--log-level", "error", "--drain-timeout", "1s",
	}
	signing := []string{"--insecure-unsigned"}
	if cfg.signed {
		if signing, err = s.signingKey(); err != nil {
			return err
		}
	}
	if cfg.profile != "" && i == 0 {
		args = append(args, "--cpuprofile", cfg.profile)
	}
	if err := s.start(fmt.Sprintf("registry-%d", i), append(args, signing...)...); err != nil {
		return err
	}
	client, err := registryclient.Dial(address)
	if err != nil {
		return err
	}
	s.registry, s.clients = append(s.registry, address), append(s.clients, client)
	return nil
}

// signingKey returns the flags for the key of all registries, which it makes for the first.
func (s *stack) signingKey() ([]string, error) {
	flags := []string{"--signing-key", filepath.Join(s.dir, "signing.key")}
	if s.trusted != "" {
		return flags, nil
	}
	key, err := seal.GenerateKey()
	if err != nil {
		return nil, err
	}
	private, err := seal.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	public, err := seal.EncodePublicKeys(key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	s.trusted = filepath.Join(s.dir, "signing.pub")
	return flags, errors.Join(os.WriteFile(flags[1], private, 0o600), os.WriteFile(s.trusted, public, 0o600))
}

// awaitNATS waits until NATS listens: registries serve without it.
func (s *stack) awaitNATS(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stackStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.nats)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("NATS does not start: %w", err)
		}
		if crash := s.crashed(); crash != nil {
			return crash
		}
	}
}

// awaitRegistries waits until each registry answers.
func (s *stack) awaitRegistries(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stackStart)
	defer cancel()
	for i, client := range s.clients {
		for {
			_, err := client.Status(ctx, script.Name{})
			if err == nil {
				break
			}
			if crash := s.crashed(); ctx.Err() != nil || crash != nil {
				return errors.Join(fmt.Errorf("registry %d does not start: %w", i, err), crash)
			}
		}
	}
	return nil
}

// crashed says which processes ended without being asked to; nil if none has.
func (s *stack) crashed() error {
	for _, p := range s.processes {
		for _, crash := range p.Crashes() {
			return fmt.Errorf("%s ended: %s\n%s", crash.Process, crash.Reason, crash.Log)
		}
	}
	return nil
}

// pids returns the ids of the processes that run, by their names.
func (s *stack) pids() map[string]int {
	pids := map[string]int{}
	for _, p := range s.processes {
		if pid := p.PID(); pid != 0 {
			pids[p.Name] = pid
		}
	}
	return pids
}

// close ends the processes and removes their files.
func (s *stack) close() error {
	var errs []error
	for _, client := range s.clients {
		errs = append(errs, client.Close())
	}
	var ending sync.WaitGroup
	for _, p := range s.processes {
		end := p.Kill // what they leave is thrown away
		if s.profiled {
			end = func() { p.Stop(stackStop) } // a profile is written in the end
		}
		ending.Go(end)
	}
	ending.Wait()
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
