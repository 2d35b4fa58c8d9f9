package scriptorium

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/scriptorium-dev/scriptorium/embed"
)

const (
	// patience is how long a reload waits for a new agent to have scripts.
	patience = 10 * time.Second
	// linger is how long an agent stays that no configuration needs any more. Caddy does not wait for the
	// servers of the configuration before: they still get requests, or read them.
	linger = 30 * time.Second
	// drain is how long calls in flight have when an agent ends.
	drain = 10 * time.Second
)

// pool has the agents of the process, by their configuration as JSON.
type pool struct {
	// mu is held while an agent starts or ends, too: Caddy changes one configuration at a time.
	mu     sync.Mutex
	agents map[string]*shared
}

var agents = pool{agents: map[string]*shared{}}

// shared is an agent in the pool.
type shared struct {
	*embed.Agent
	folder   string
	handlers int
	releases int         // how often its last handler has given it back
	end      *time.Timer // of an agent without handlers
}

// acquire returns the agent with that configuration, and what gives it back once. It starts one unless
// there is one, as after a reload.
func (p *pool) acquire(cfg *embed.Config) (*embed.Agent, func() error, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, nil, err
	}
	key := string(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.agents[key]
	if !ok {
		if err := p.freeFolder(cfg.StateDir); err != nil {
			return nil, nil, err
		}
		if s, err = start(*cfg); err != nil {
			return nil, nil, err
		}
		p.agents[key] = s
	}
	s.handlers++
	if s.end != nil {
		s.end.Stop()
		s.end = nil
	}
	return s.Agent, sync.OnceValue(func() error { return p.release(key) }), nil
}

// freeFolder ends an agent that only lingers in the state folder. It returns an error if an agent of a
// configuration has the folder.
func (p *pool) freeFolder(folder string) error {
	for key, s := range p.agents {
		if s.folder != filepath.Clean(folder) {
			continue
		}
		if s.handlers > 0 {
			return fmt.Errorf("state_dir: an agent with other settings has %s, also while Caddy reloads its configuration: restart Caddy to change them, or give this agent a folder of its own", folder)
		}
		if err := p.remove(key); err != nil {
			return err
		}
	}
	return nil
}

// release gives an agent back. Without a handler it lingers, unless Caddy has stopped.
func (p *pool) release(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.agents[key]
	if s.handlers--; s.handlers == 0 {
		s.releases++
		release := s.releases
		s.end = time.AfterFunc(linger, func() { p.expire(key, s, release) })
	}
	if running() {
		return nil
	}
	var err error
	for key, s := range p.agents {
		if s.handlers == 0 {
			err = errors.Join(err, p.remove(key))
		}
	}
	return err
}

// expire ends an agent that has lingered since that release, unless a handler has had it since.
func (p *pool) expire(key string, s *shared, release int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.agents[key] != s || s.handlers > 0 || s.releases != release {
		return
	}
	if err := p.remove(key); err != nil {
		slog.New(logs{}).Error("an agent that no configuration has any more did not end well", "agent", s.Name(), "error", err)
	}
}

// remove ends an agent without handlers.
func (p *pool) remove(key string) error {
	s := p.agents[key]
	delete(p.agents, key)
	s.end.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return s.Close(ctx)
}

// start starts an agent. In a reload, the agent is ready then, or the configuration before stays.
func start(cfg embed.Config) (*shared, error) {
	cfg.Logger = slog.New(logs{})
	a, err := embed.Start(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	if running() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.WaitReady(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("the agent is not ready after %s, so requests would fail; is its registry %s there? %w", patience, cfg.Registry, err), a.Close(ctx))
		}
	}
	return &shared{Agent: a, folder: filepath.Clean(cfg.StateDir)}, nil
}

// running reports whether Caddy has a configuration, which a reload replaces.
func running() bool { return caddy.ActiveContext().Context != nil }
