package gateway

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is one connection of a protocol that reads its socket itself.
type Conn interface {
	// Serve answers requests until the connection ends.
	Serve()
	// Close ends the connection. Conns calls it once, after Serve.
	Close()
	// Wake makes a connection that waits for its client look at Conns again, which drains, or at
	// the time that the client was silent.
	Wake()
	// Kill ends the connection and its calls at once, and does not wait for Serve.
	Kill()
	// Active returns when something came last, as Conns.Now counts the time.
	Active() int64
}

// ConnsConfig of Conns. All fields are required.
type ConnsConfig struct {
	Entry Entry
	// IdleTimeout wakes a connection on which nothing came for that long.
	IdleTimeout time.Duration
	Logger      *slog.Logger
	// Closed is what Serve returns after Shutdown.
	Closed error
	// New returns the connection for an accepted one.
	New func(nc net.Conn) (Conn, error)
}

// Conns accepts connections, wakes those that are idle, and drains them. It is safe for
// concurrent use.
type Conns struct {
	cfg ConnsConfig
	// ctx ends when Conns gives up the calls in flight.
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[Conn]struct{}

	waking   sync.Once    // begins wakeIdle, one for all listeners
	now      atomic.Int64 // in parts of the IdleTimeout
	draining atomic.Bool
	running  sync.WaitGroup // connections
}

// NewConns returns Conns without connections.
func NewConns(cfg ConnsConfig) *Conns {
	c := &Conns{cfg: cfg, listeners: map[net.Listener]struct{}{}, conns: map[Conn]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Context ends when Conns gives up the calls in flight.
func (c *Conns) Context() context.Context { return c.ctx }

// Draining reports whether Shutdown was called.
func (c *Conns) Draining() bool { return c.draining.Load() }

// Now counts the time, in parts of the IdleTimeout.
func (c *Conns) Now() int64 { return c.now.Load() }

// Idle reports whether a connection that was woken ends: Conns drains, or nothing came for the
// IdleTimeout.
func (c *Conns) Idle(conn Conn) bool { return c.draining.Load() || c.Now()-conn.Active() > idleParts }

// Len returns how many connections there are.
func (c *Conns) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

// Go runs f in a goroutine that Shutdown waits for. A connection that is served calls it.
func (c *Conns) Go(f func()) { c.running.Go(f) }

// Serve accepts connections on l, which it closes, until Shutdown.
func (c *Conns) Serve(l net.Listener) error {
	l = c.cfg.Entry.Listen(l)
	defer func() { _ = l.Close() }()
	c.mu.Lock()
	if c.draining.Load() {
		c.mu.Unlock()
		return c.cfg.Closed
	}
	c.listeners[l] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.listeners, l)
		c.mu.Unlock()
	}()
	c.waking.Do(func() { go c.wakeIdle(c.ctx) })
	for {
		nc, err := Accept(c.ctx, l, c.cfg.Logger)
		if c.draining.Load() {
			if err == nil {
				_ = nc.Close()
			}
			return c.cfg.Closed
		}
		if err != nil {
			return err
		}
		c.start(nc)
	}
}

// start serves nc in a goroutine.
func (c *Conns) start(nc net.Conn) {
	conn, err := c.cfg.New(nc)
	if err != nil {
		c.cfg.Logger.Error("a connection cannot be served", "error", err)
		_ = nc.Close()
		return
	}
	c.mu.Lock()
	c.conns[conn] = struct{}{}
	c.mu.Unlock()
	c.running.Go(func() {
		defer func() {
			conn.Close()
			c.mu.Lock()
			delete(c.conns, conn)
			c.mu.Unlock()
		}()
		defer c.Survive(conn)
		conn.Serve()
	})
}

// Survive is for defer: after a panic it ends the connection, and not the agent.
func (c *Conns) Survive(conn Conn) {
	if p := recover(); p != nil {
		c.cfg.Logger.Error("a connection panicked and was closed", "panic", p, "stack", string(debug.Stack()))
		conn.Kill()
	}
}

// idleParts is in how many parts of the IdleTimeout Conns counts the time.
const idleParts = 8

// wakeIdle wakes connections on which nothing came for the IdleTimeout, until ctx is done. A
// deadline for each connection would cost each request more than a call does.
func (c *Conns) wakeIdle(ctx context.Context) {
	tick := time.NewTicker(max(c.cfg.IdleTimeout/idleParts, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := c.now.Add(1)
		c.mu.Lock()
		for conn := range c.conns {
			if now-conn.Active() > idleParts {
				conn.Wake()
			}
		}
		c.mu.Unlock()
	}
}

// Shutdown stops accepting, lets calls in flight finish and their replies be written, and closes
// each connection after that. When ctx is done first, it closes what is left and returns ctx's
// error.
func (c *Conns) Shutdown(ctx context.Context) error {
	c.draining.Store(true)
	c.mu.Lock()
	for l := range c.listeners {
		_ = l.Close()
	}
	for conn := range c.conns {
		conn.Wake()
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.running.Wait()
	}()
	select {
	case <-done:
		c.cancel()
		return nil
	case <-ctx.Done():
	}
	// First, so that no client takes the end of its call for the script's answer.
	c.mu.Lock()
	for conn := range c.conns {
		conn.Kill()
	}
	c.mu.Unlock()
	c.cancel()
	<-done
	return ctx.Err()
}
