package spopsock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// How long, and for how many bytes, a connection that ends with an error goes on to take what its
// peer sends: see linger.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// conn is one connection. One goroutine reads, and one for each question answers.
type conn struct {
	srv   *Server
	nc    net.Conn
	raw   syscall.RawConn
	grant gateway.Grant

	// ctx ends with the connection, and the calls of it with ctx.
	ctx    context.Context
	cancel context.CancelFunc
	active atomic.Int64 // when something came, as the server counts the time
	killed atomic.Bool
	half   budget.Claim // of half a frame
	asked  budget.Claim // of questions and their answers
	calls  sync.WaitGroup

	// Of the goroutine that reads.
	in       *[]byte // (*in)[start:end] is received and not yet handled; nil at rest
	start    int
	end      int
	charged  int  // bytes of half
	timed    bool // a read deadline is set
	progress bool // a frame was complete since the last rest
	greeted  bool
	terms    terms
	slots    chan struct{} // has an element for each question that runs

	writing sync.Mutex
	over    bool // guarded by writing: no more is written
}

func newConn(s *Server, nc net.Conn) (*conn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a %T has no file descriptor", nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{srv: s, nc: nc, raw: raw, grant: s.opts.Access.GrantOf(nc)}
	c.ctx, c.cancel = context.WithCancel(s.conns.Context())
	c.active.Store(s.conns.Now())
	s.opts.Budget.Open(&c.half, c.grant.Caller(), c)
	s.opts.Budget.Open(&c.asked, c.grant.Caller(), c)
	return c, nil
}

// Active implements gateway.Conn.
func (c *conn) Active() int64 { return c.active.Load() }

// GiveUp implements budget.Holder: half a frame makes room for others.
func (c *conn) GiveUp(error) { c.Kill() }

// errDone ends a connection without a DISCONNECT frame.
var errDone = errors.New("done")

// Serve implements gateway.Conn: it answers frames until the connection ends.
func (c *conn) Serve() {
	c.setReadDeadline(c.srv.opts.RequestTimeout) // for HELLO
	err := c.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.calls.Wait() // what was asked before is answered
	}
	c.cancel()
	var why *disconnection
	switch {
	case c.killed.Load():
	case errors.As(err, &why):
	case c.srv.conns.Draining():
		why = disconnect(statusNormal, "the agent stops")
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = disconnect(statusTimeout, "nothing came for too long")
	}
	if why != nil {
		c.srv.opts.Logger.Debug("a connection of HAProxy ends", "status", why.status, "reason", why.reason)
		c.write(why.append(nil), true)
		if why.status != statusNormal {
			c.linger()
		}
	}
}

// Close implements gateway.Conn: it ends the connection once its calls have ended.
func (c *conn) Close() {
	c.cancel()
	c.calls.Wait()
	_ = c.nc.Close()
	if c.in != nil {
		c.srv.buffers.Put(c.in)
	}
	c.half.Close()
	c.asked.Close()
}

// linger lets a peer read why the connection ends. Closed at once, the connection would fail its
// write. So it is only closed for writing, and what still comes is thrown away, within bounds.
func (c *conn) linger() {
	_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	c.setReadDeadline(lingerTime)
	_, _ = io.CopyBuffer(discard{}, io.LimitReader(c.nc, lingerBytes), *c.buffer())
}

// discard hides the ReadFrom of io.Discard, so that io.CopyBuffer takes our buffer.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Wake implements gateway.Conn: it makes a connection at rest see that the server drains.
func (c *conn) Wake() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) }

// Kill implements gateway.Conn: it ends the connection both ways, and its calls. Unlike Close it does not wait for the
// goroutines that serve it, which see the end at their next read or write. The process of a tenant
// may shut nothing down: there the deadlines do.
func (c *conn) Kill() {
	c.killed.Store(true)
	c.cancel()
	_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	_ = c.nc.SetDeadline(time.Unix(1, 0))
}

// read handles frames until the connection ends, and returns why.
func (c *conn) read() error {
	for {
		if err := c.fill(); err != nil {
			return err
		}
		c.active.Store(c.srv.conns.Now())
		if err := c.handleAll(); err != nil {
			return err
		}
		if c.killed.Load() {
			return errDone
		}
	}
}

// handleAll handles each complete frame, and moves what is left to the front of the buffer.
func (c *conn) handleAll() error {
	in := *c.in
	for {
		frame, n, err := nextFrame(in[c.start:c.end], c.mostBytes())
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		c.start += n
		if c.progress = true; c.charged > 0 {
			c.half.Arrived()
		}
		if err := c.handle(frame); err != nil {
			return err
		}
	}
	copy(in, in[c.start:c.end])
	c.start, c.end = 0, c.end-c.start
	return nil
}

// mostBytes are what a frame may have.
func (c *conn) mostBytes() int {
	if c.greeted {
		return c.terms.maxFrame
	}
	return c.srv.opts.MaxFrame
}

// fill waits for bytes and reads what there is. While it waits for a frame, the connection holds no
// buffer.
func (c *conn) fill() error {
	var result error
	err := c.raw.Read(func(fd uintptr) bool {
		n, err := read(int(fd), (*c.buffer())[c.end:])
		switch {
		case err == unix.EAGAIN: //nolint:errorlint // a bare Errno
			result = c.rest()
			return result != nil
		case err != nil:
			result = err
		case n == 0:
			result = io.EOF
		}
		c.end += max(n, 0)
		return true
	})
	return errors.Join(err, result)
}

func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func (c *conn) buffer() *[]byte {
	if c.in == nil {
		c.in = c.srv.buffers.Get().(*[]byte)
	}
	return c.in
}

// rest prepares for a wait of any length.
func (c *conn) rest() error {
	if c.end > 0 {
		return c.restHalf()
	}
	if c.timed && c.greeted {
		c.setReadDeadline(0)
	}
	if c.charged > 0 {
		c.half.Give(int64(c.charged))
		c.charged = 0
	}
	if c.in != nil {
		c.srv.buffers.Put(c.in)
		c.in = nil
	}
	return nil
}

// restHalf prepares for a wait for the rest of a frame. The peer has to send it in time.
func (c *conn) restHalf() error {
	if c.charged == 0 {
		if !c.half.Try(int64(len(*c.in))) {
			return disconnect(statusResources, "the agent has no memory left for unfinished frames")
		}
		c.charged = len(*c.in)
	}
	c.half.Await(time.Time{})
	if c.progress || !c.timed {
		c.setReadDeadline(c.srv.opts.RequestTimeout)
	}
	c.progress = false
	return nil
}

// setReadDeadline sets the deadline after d, or none if d is 0. It must not undo what wake did.
func (c *conn) setReadDeadline(d time.Duration) {
	c.timed = d > 0
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = c.nc.SetReadDeadline(at)
	if c.killed.Load() || c.srv.conns.Draining() {
		c.Wake()
	}
}
