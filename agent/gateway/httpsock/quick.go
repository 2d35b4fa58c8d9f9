package httpsock

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// quickConn is a connection over which a gateway asks for decisions. net/http starts a goroutine for each
// request and makes several contexts, which takes longer than most scripts do. So the connection itself
// serves each request for a decision that is whole and has no body. net/http gets the first other request,
// and what follows on the connection.
type quickConn struct {
	srv    *Server
	nc     net.Conn
	ctx    context.Context // has the peer
	cancel context.CancelFunc
	active atomic.Int64
	passed atomic.Bool // to net/http

	buf    []byte // has what came and is not served yet, up to end
	end    int
	answer answer

	long  *time.Timer   // until a call is a long one
	watch chan struct{} // gets an element when watchClient ends
	lost  context.CancelFunc
}

const (
	// headBytes are the longest head that a quickConn takes.
	headBytes = 4 << 10
	// longCall is the time from which on a client that goes away ends its call.
	longCall = 20 * time.Millisecond
)

func (s *Server) newQuickConn(nc net.Conn) (gateway.Conn, error) {
	c := &quickConn{srv: s, nc: nc, watch: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.WithValue(s.conns.Context(), peerKey{}, s.newPeer(nc)))
	c.active.Store(s.conns.Now())
	c.long = time.AfterFunc(time.Hour, c.watchClient)
	c.long.Stop()
	return c, nil
}

// Serve implements gateway.Conn.
func (c *quickConn) Serve() {
	c.buf = make([]byte, headBytes)
	c.answer.conn = c
	c.answer.reset()
	_ = c.nc.SetReadDeadline(time.Now().Add(c.srv.opts.ReadTimeout)) // of the first request
	for first := true; c.read(first); first = false {
		c.active.Store(c.srv.conns.Now())
		for c.end > 0 {
			req, size := nextRequest(c.buf[:c.end])
			if req == nil {
				c.pass()
				return
			}
			c.end = copy(c.buf, c.buf[size:c.end])
			_ = c.nc.SetWriteDeadline(time.Now().Add(c.srv.opts.WriteTimeout))
			ctx, cancel := context.WithCancel(c.ctx)
			c.watched(cancel, func() { c.srv.decide(&c.answer, req.WithContext(ctx)) })
			cancel()
			if !c.answer.finish() {
				return
			}
			c.answer.reset() // at rest, a connection holds nothing of it
		}
	}
}

// read waits for what comes next, and reports whether the connection goes on.
func (c *quickConn) read(first bool) bool {
	n, err := c.nc.Read(c.buf[c.end:])
	c.end += n
	switch {
	case err == nil && !first:
		return true
	case err != nil && (first || !errors.Is(err, os.ErrDeadlineExceeded) || c.srv.conns.Idle(c)):
		return false
	}
	// It was woken just as something came, or its first request has come in time.
	err = c.nc.SetReadDeadline(time.Time{})
	return err == nil && !c.srv.conns.Draining()
}

func (c *quickConn) draining() bool { return c.srv.conns.Draining() }

func (c *quickConn) send(part []byte) error {
	_, err := c.nc.Write(part)
	return err
}

// SetWriteDeadline bounds the time that the client has to read.
func (c *quickConn) SetWriteDeadline(t time.Time) error { return c.nc.SetWriteDeadline(t) }

// watched makes the call. If the client goes away during a long call, lost is called. A client that only
// sends no more gets the answer, and those to what it has sent before.
func (c *quickConn) watched(lost context.CancelFunc, call func()) {
	c.lost = lost
	c.long.Reset(longCall)
	call()
	if c.long.Stop() {
		return
	}
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	<-c.watch
	_ = c.nc.SetReadDeadline(time.Time{}) // if that fails, so does what comes next
}

// watchClient reads what the client sends during a long call, which it may before the answer.
func (c *quickConn) watchClient() {
	if c.end < len(c.buf) {
		n, err := c.nc.Read(c.buf[c.end:])
		c.end += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.lost()
		}
	}
	c.watch <- struct{}{}
}

// pass has net/http serve what is not served yet, and waits until the connection ends.
func (c *quickConn) pass() {
	passed := &passedConn{Conn: c.nc, ctx: c.ctx, rest: c.buf[:c.end], closed: make(chan struct{})}
	c.buf = nil
	c.passed.Store(true)
	_ = c.nc.SetDeadline(time.Time{})
	select {
	case c.srv.passed.conns <- passed:
		<-passed.closed
	case <-c.srv.passed.closed:
		_ = c.nc.Close()
	}
}

// Close implements gateway.Conn.
func (c *quickConn) Close() {
	c.cancel()
	_ = c.nc.Close()
}

// Wake implements gateway.Conn. net/http drains its connections by itself, and ends idle ones.
func (c *quickConn) Wake() {
	if !c.passed.Load() {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// Kill implements gateway.Conn.
func (c *quickConn) Kill() { c.Close() }

// Active implements gateway.Conn.
func (c *quickConn) Active() int64 { return c.active.Load() }
