package worker

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
)

// caller makes calls to one process, each over a connection that no other uses meanwhile.
type caller struct {
	control *net.UnixConn

	mu     sync.Mutex // guards what follows
	idle   []*callConn
	closed bool
}

type callConn struct {
	*net.UnixConn
	r       *bufio.Reader
	in, out []byte
}

// Bounds of what is kept between calls.
const (
	maxIdle     = 64
	keptBuffers = 64 << 10
)

// call runs a call. After an error that is not ctx's, the process has ended, or is of no
// use any more.
func (c *caller) call(ctx context.Context, req *workerv1.ExecuteRequest) (*workerv1.ExecuteResponse, error) {
	conn, err := c.take()
	if err != nil {
		return nil, err
	}
	timeout := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), 1)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	resp, err := conn.exchange(timeout, req)
	if !stop() || err != nil { // or an answer that comes late is taken for the next call's
		return resp, errors.Join(err, conn.Close())
	}
	c.give(conn)
	return resp, nil
}

func (c *callConn) exchange(timeout time.Duration, req *workerv1.ExecuteRequest) (_ *workerv1.ExecuteResponse, err error) {
	if c.out, err = link.AppendFrame(link.AppendTimeout(c.out[:0], timeout), req); err != nil {
		return nil, err
	}
	if _, err = c.Write(c.out); err != nil {
		return nil, err
	}
	resp := &workerv1.ExecuteResponse{}
	c.in, err = link.ReadFrame(c.r, link.MaxMessage, c.in, resp)
	return resp, err
}

// take returns a connection that nobody uses, a new one if there is none.
func (c *caller) take() (*callConn, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, net.ErrClosed
	}
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	ours, theirs, err := link.Stream()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	if err := link.Send(c.control, []byte("calls"), []*os.File{theirs}); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return &callConn{UnixConn: ours, r: bufio.NewReader(ours)}, nil
}

func (c *caller) give(conn *callConn) {
	if cap(conn.in)+cap(conn.out) > keptBuffers {
		conn.in, conn.out = nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		_ = conn.Close()
		return
	}
	c.idle = append(c.idle, conn)
}

func (c *caller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}
