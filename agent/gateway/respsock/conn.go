package respsock

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

const (
	readSize  = 16 << 10 // of a fresh read buffer: a pipeline of small calls fits
	flushSize = 64 << 10 // replies that are written before the batch is done
	maxNames  = 32       // script names that a connection remembers

	// trusted is after how many reads a connection counts as long-lived.
	trusted = 16

	// How long, and for how many bytes, a connection that ends with an error
	// goes on to take what its client sends: see linger.
	lingerTime  = 5 * time.Second
	lingerBytes = 64 << 20
)

// work is what a connection needs while it is served, and not while it rests.
type work struct {
	parser parser
	in     []byte // in[start:end] is received and not yet parsed
	start  int
	end    int
	out    []byte
	call   gateway.Call
	reply  gateway.Reply
}

var workPool = sync.Pool{New: func() any { return &work{in: make([]byte, readSize)} }}

// release gives w back to the pool, without what it got that is out of the
// ordinary.
func (w *work) release() {
	if len(w.in) > readSize || cap(w.out) > 2*flushSize || w.reply.Held() > flushSize {
		return
	}
	w.start, w.end, w.out = 0, 0, w.out[:0]
	w.parser.need, w.parser.at = 0, 0
	w.call = gateway.Call{}
	workPool.Put(w)
}

// trim drops what a connection does not need that waits for the rest of a command.
func (w *work) trim() {
	const kept = 2 << 10
	if cap(w.out) > kept {
		w.out = nil
	}
	if w.reply.Held() > kept {
		w.reply = gateway.Reply{}
	}
	w.call = gateway.Call{}
	w.parser.args, w.parser.inline = nil, nil
}

// callee is a script as the connection's client may call it.
type callee struct {
	script string
	err    error
}

// conn is one connection, served by one goroutine.
type conn struct {
	srv   *Server
	nc    net.Conn
	raw   syscall.RawConn
	id    int64
	grant gateway.Grant

	names map[string]callee
	name  string // that the client gave itself
	resp3 bool

	active  atomic.Int64 // when something came, as the server counts the time
	killed  atomic.Bool
	claim   budget.Claim
	fd      int   // of nc, while onReadable runs
	work    *work // nil at rest
	charged int   // bytes of claim that work.in took
	timed   bool  // a read deadline is set
	reads   int   // that got something, up to trusted
	closing bool
	refused bool     // the last reply is an error, and what comes after it is not read
	backlog *backlog // nil as long as the client reads its replies
}

func newConn(s *Server, nc net.Conn) (*conn, error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, errNotSyscall(nc)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &conn{srv: s, nc: nc, raw: raw, id: s.lastID.Add(1), grant: s.opts.Access.GrantOf(nc)}
	c.active.Store(s.conns.Now())
	s.opts.Budget.Open(&c.claim, c.grant.Caller(), c)
	return c, nil
}

// Active implements gateway.Conn.
func (c *conn) Active() int64 { return c.active.Load() }

// GiveUp implements budget.Holder: half a command makes room for others.
func (c *conn) GiveUp(error) { c.Kill() }

// Serve implements gateway.Conn: it answers commands until the connection ends.
//
// All of it happens inside one RawConn.Read, which calls onReadable whenever
// there is something to read. A Conn.Read in a loop would find nothing at each
// second call, and learn that by a system call.
func (c *conn) Serve() {
	_ = c.raw.Read(c.onReadable) // its error means a deadline or a closed connection
}

// Close implements gateway.Conn: it ends the connection once its replies are written.
func (c *conn) Close() {
	if c.backlog != nil {
		c.backlog.wait()
	}
	if c.refused {
		c.linger()
	}
	_ = c.nc.Close()
	c.claim.Close()
}

// linger lets a client read the error that ends the connection. Most clients
// send a request whole before they read: closed at once, the connection would
// fail their write, or lose the error with what was not received. So it is only
// closed for writing, and what still comes is thrown away, within bounds.
func (c *conn) linger() {
	_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	c.setReadDeadline(lingerTime)
	_, _ = io.CopyBuffer(discard{}, io.LimitReader(c.nc, lingerBytes), c.work.in)
}

// discard hides the ReadFrom of io.Discard, so that io.CopyBuffer takes our buffer.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Wake implements gateway.Conn: it makes a connection at rest see that the server drains.
func (c *conn) Wake() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) }

// Kill implements gateway.Conn: it ends the connection both ways. Unlike Close it does not wait for the goroutine
// that serves it, which sees the end at its next read or write. The process of a tenant
// may shut nothing down: there the deadlines do.
func (c *conn) Kill() {
	c.killed.Store(true)
	_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	_ = c.nc.SetDeadline(time.Unix(1, 0))
}

// onReadable reads what there is, answers what is complete, and reports whether
// the connection is over.
func (c *conn) onReadable(fd uintptr) (over bool) {
	w := c.work
	if w == nil {
		w = workPool.Get().(*work)
		c.work = w
	}
	c.fd = int(fd)
	progress := false
	for {
		n, err := read(c.fd, w.in[w.end:])
		if err == unix.EAGAIN { //nolint:errorlint // a bare Errno
			break
		}
		if err != nil || n == 0 {
			return true
		}
		w.end += n
		c.active.Store(c.srv.conns.Now())
		full := w.end == len(w.in)
		progress = c.answer(w) || progress
		answered := len(w.out) > 0
		if !c.flush(w) || c.closing || c.killed.Load() || c.srv.conns.Draining() || !c.makeRoom(w) {
			return true
		}
		if !full && answered && c.isTrusted() {
			break
		}
	}
	c.rest(w, progress)
	return false
}

// isTrusted reports whether a read that did not fill the buffer may be taken for
// the last, without another one that finds nothing. Bytes that come later wake us
// again, and so does the end of the stream, unless it came together with the
// bytes: who closed its end altogether fails our write of the answer then. Who
// closed it for writing alone, as nc does, and waits for us to close, would wait
// for ever: so the first reads of a connection look twice.
func (c *conn) isTrusted() bool {
	if c.reads < trusted {
		c.reads++
		return false
	}
	return true
}

func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// answer runs each complete command and appends its reply to w.out. It reports
// whether there was one.
func (c *conn) answer(w *work) (progress bool) {
	for w.start < w.end && !c.closing {
		n, err := w.parser.next(w.in[w.start:w.end])
		if err != nil {
			w.out = appendError(w.out, "ERR", err.Error())
			c.closing, c.refused = true, true
			return progress
		}
		if n == 0 {
			return progress
		}
		progress = true
		if c.charged > 0 {
			c.claim.Arrived()
		}
		if len(w.parser.args) > 0 {
			c.dispatch(w)
		}
		w.start += n
		if len(w.out) >= flushSize && !c.flush(w) {
			c.closing = true
		}
	}
	return progress
}

// makeRoom moves what is left of a half-received command to the front of the
// buffer, and grows the buffer if the command does not fit. It reports whether
// it could.
func (c *conn) makeRoom(w *work) bool {
	left := w.end - w.start
	if w.start > 0 {
		copy(w.in, w.in[w.start:w.end])
		w.start, w.end = 0, left
	}
	if left < len(w.in) && w.parser.need <= len(w.in) {
		return true
	}
	if left >= maxRequest {
		w.out = appendError(w.out, "ERR", errTooLarge.Error())
		c.refused = c.flush(w)
		return false
	}
	size := min(max(w.parser.need, 2*len(w.in)), maxRequest)
	if !c.claim.Try(int64(size - c.charged)) {
		w.out = appendError(w.out, "OVERLOADED", "the agent has no memory left for large requests; try again later")
		c.refused = c.flush(w)
		return false
	}
	c.charged = size
	grown := make([]byte, size)
	copy(grown, w.in[:left])
	w.in = grown
	return true
}

// rest prepares for a wait of any length. progress says that a command was
// completed since the last rest.
func (c *conn) rest(w *work, progress bool) {
	if w.end > 0 {
		w.trim()
		if c.charged > 0 {
			c.claim.Await(time.Time{})
		}
		// The client has to finish a command that it began in time.
		if progress || !c.timed {
			c.setReadDeadline(c.srv.opts.RequestTimeout)
		}
		return
	}
	if c.timed {
		c.setReadDeadline(0)
	}
	if c.charged > 0 {
		c.claim.Give(int64(c.charged))
		c.charged = 0
	}
	c.work = nil
	w.release()
}

// setReadDeadline sets the deadline after d, or none if d is 0. It must not undo
// what wake did.
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
