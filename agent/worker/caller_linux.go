package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// caller makes calls to one process, each over a connection that no other uses meanwhile.
type caller struct {
	control *net.UnixConn

	mu     sync.Mutex // guards what follows
	idle   []*callConn
	busy   map[*callConn]struct{}
	closed bool
}

type callConn struct {
	*net.UnixConn
	r       *bufio.Reader
	in, out []byte
}

func newCaller(control *net.UnixConn) *caller {
	return &caller{control: control, busy: map[*callConn]struct{}{}}
}

// bounds of what a process may make of a call.
type bounds struct {
	time   time.Duration // until it answers
	answer int           // bytes
}

// Bounds of what is kept between calls.
const (
	maxIdle     = 64
	keptBuffers = 64 << 10
)

// call runs a call. After an error that is neither ctx's nor a *script.Error, the process
// has ended, or is of no use any more. sent: the process has got it.
func (c *caller) call(ctx context.Context, b bounds, req *workerv1.ExecuteRequest) (resp *workerv1.ExecuteResponse, sent bool, err error) {
	conn, err := c.take()
	if err != nil {
		return nil, false, err
	}
	timeout := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), 1)
	}
	if err := conn.SetDeadline(time.Now().Add(b.time)); err != nil {
		return nil, false, errors.Join(err, c.drop(conn))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	resp, sent, err = conn.exchange(timeout, b.answer, req)
	if !stop() || err != nil { // or an answer that comes late is taken for the next call's
		_ = c.drop(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
			return nil, sent, script.Errorf(script.Timeout, "", "the tenant's process did not answer within %v", b.time)
		}
		return resp, sent, err
	}
	c.give(conn)
	return resp, true, nil
}

func (c *callConn) exchange(timeout time.Duration, most int, req *workerv1.ExecuteRequest) (_ *workerv1.ExecuteResponse, sent bool, err error) {
	if c.out, err = link.AppendFrame(link.AppendTimeout(c.out[:0], timeout), req); err != nil {
		return nil, false, err
	}
	if _, err = c.Write(c.out); err != nil {
		return nil, false, err
	}
	resp := &workerv1.ExecuteResponse{}
	c.in, err = link.ReadFrame(c.r, most, c.in, resp)
	return resp, true, err
}

// take returns a connection that nobody uses, a new one if there is none.
func (c *caller) take() (*callConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.busy[conn] = struct{}{}
		return conn, nil
	}
	ours, theirs, err := link.Stream()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	if err := sendNow(c.control, []byte("calls"), theirs); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	conn := &callConn{UnixConn: ours, r: bufio.NewReader(ours)}
	c.busy[conn] = struct{}{}
	return conn, nil
}

// sendNow sends a packet with a file, and does not wait for a process that takes none.
func sendNow(control *net.UnixConn, packet []byte, file *os.File) error {
	theirs, err := file.SyscallConn()
	if err != nil {
		return err
	}
	ours, err := control.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	controlled := theirs.Control(func(fd uintptr) {
		err = ours.Write(func(to uintptr) bool {
			sent = unix.Sendmsg(int(to), packet, unix.UnixRights(int(fd)), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			return true
		})
	})
	if err := errors.Join(controlled, err); err != nil {
		return err
	}
	switch sent {
	case nil:
		return nil
	case unix.EAGAIN, unix.ETOOMANYREFS: // of descriptors in flight, too, there are only so many
		return script.Errorf(script.Overloaded, "tenant", "the tenant's process does not take more calls now: try again")
	}
	return fmt.Errorf("hand a connection over: %w", sent)
}

// drop ends a connection that is of no use any more.
func (c *caller) drop(conn *callConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, conn)
	return conn.Close()
}

func (c *caller) give(conn *callConn) {
	if cap(conn.in)+cap(conn.out) > keptBuffers {
		conn.in, conn.out = nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, conn)
	if c.closed || len(c.idle) >= maxIdle || conn.r.Buffered() > 0 { // it says what it was not asked
		_ = conn.Close()
		return
	}
	c.idle = append(c.idle, conn)
}

// close ends all connections: calls under way fail.
func (c *caller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	for conn := range c.busy {
		_ = conn.Close()
	}
	c.idle = nil
}
