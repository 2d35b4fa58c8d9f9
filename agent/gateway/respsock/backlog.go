package respsock

import (
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxBacklog bounds the replies that one connection holds for a client that
// does not read them yet.
const maxBacklog = 4 << 20

// flush writes w.out, and reports whether the connection can go on.
//
// Usually one system call takes it all. A client that sends a long pipeline and
// reads no reply before the end of it would block us there, and we it: then a
// backlog takes the replies, and the connection goes on reading.
func (c *conn) flush(w *work) bool {
	out := w.out
	w.out = w.out[:0]
	if len(out) == 0 {
		return true
	}
	if c.backlog != nil && !c.backlog.idle() {
		return c.backlog.add(out)
	}
	n, err := c.writeNow(out)
	if err != nil {
		return false
	}
	if n == len(out) {
		return true
	}
	if c.backlog == nil {
		c.backlog = newBacklog(c)
	}
	return c.backlog.add(out[n:])
}

// writeNow writes what the socket takes without waiting.
func (c *conn) writeNow(out []byte) (n int, err error) {
	for n < len(out) {
		m, err := unix.Write(c.fd, out[n:])
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return n, nil
		case err != nil:
			return n, err
		default:
			n += m
		}
	}
	return n, nil
}

// backlog holds replies that the client did not read yet, and writes them from
// a goroutine of its own as long as there are any.
type backlog struct {
	c *conn

	mu      sync.Mutex
	changed sync.Cond
	pending []byte
	held    int  // bytes of pending, of what is being written, and of what waits to be added
	writing bool // the goroutine runs
	failed  bool // the client did not read in time, or is gone
}

func newBacklog(c *conn) *backlog {
	b := &backlog{c: c}
	b.changed.L = &b.mu
	return b
}

// idle reports whether nothing is waiting to be written.
func (b *backlog) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.writing && !b.failed
}

// add takes replies, which are in memory already: the connection ends if the budget has no room
// for them. If it has too many, it waits until the client has read some. It
// reports whether the connection can go on.
func (b *backlog) add(replies []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed {
		return false
	}
	if !b.c.claim.Hold(int64(len(replies))) {
		b.failed = true
		b.c.Kill()
		return false
	}
	b.held += len(replies)
	for b.held > maxBacklog && b.held > len(replies) && !b.failed {
		b.changed.Wait()
	}
	if b.failed {
		return false
	}
	b.pending = append(b.pending, replies...)
	if !b.writing {
		b.writing = true
		b.c.srv.conns.Go(b.drain)
	}
	return true
}

func (b *backlog) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.pending) > 0 && !b.failed {
		batch := b.pending
		b.pending = nil
		b.mu.Unlock()
		err := b.c.writeAll(batch)
		b.mu.Lock()
		b.held -= len(batch)
		b.c.claim.Give(int64(len(batch)))
		if err != nil {
			b.failed = true
			b.c.claim.Give(int64(b.held))
			b.pending, b.held = nil, 0
			b.c.Kill()
		}
		b.changed.Broadcast()
	}
	b.writing = false
	b.changed.Broadcast()
}

// writeAll writes data; a client that takes none of it for the timeout fails it.
func (c *conn) writeAll(data []byte) error {
	for len(data) > 0 {
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.srv.opts.WriteTimeout)); err != nil {
			return err
		}
		if c.killed.Load() {
			return net.ErrClosed
		}
		n, err := c.nc.Write(data[:min(len(data), flushSize)])
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// wait waits until the replies are written or given up.
func (b *backlog) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.writing {
		b.changed.Wait()
	}
}

func errNotSyscall(nc net.Conn) error {
	return fmt.Errorf("a %T has no file descriptor", nc)
}
