package grpcguard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// Why a connection is closed.
var (
	errCut        = errors.New("the connection was closed because it cost too much")
	errNoCaller   = errors.New("no call of a known caller came in time")
	errNotReading = errors.New("the client does not read its replies")
	errResets     = errors.New("the client resets calls, or makes calls that are refused, too often")
	errTooMany    = errors.New("the caller has as many connections as it may")
	errTooFast    = errors.New("the client sends faster than its calls can be given up")
)

// conn is a connection between TLS and gRPC. It passes bytes on as they are, and reads the
// frames of HTTP/2 on their way.
type conn struct {
	net.Conn // secured
	raw      net.Conn
	guard    *guard
	since    time.Time
	known    bool   // guarded by guard.mu
	holder   string // guarded by guard.mu: the caller for whom it entered

	// Only the goroutine of gRPC that reads uses these.
	in      *bufio.Reader
	reading frames
	greeted bool   // known once the connection speaks HTTP/2
	opened  uint32 // the stream of the last headers
	tapped  bool   // gRPC took them for a call
	filling *stream
	body    int // bytes of the frame that are no padding; -1 before its length is known

	// Only the goroutine of gRPC that writes uses it.
	written frames

	mu      sync.Mutex
	caller  string // of the last call
	resets  *rate.Limiter
	streams map[uint32]*stream
	unread  int64     // bytes of replies that wait
	moved   time.Time // when one of them was sent, or the first began to wait
	blocked time.Time // when the Write began that is under way
	ended   bool
}

// guardedAddr leads from a call to its connection: gRPC tells a call the address.
type guardedAddr struct {
	net.Addr
	conn *conn
}

func (c *conn) secure(secured net.Conn) {
	c.Conn = secured
	c.in = bufio.NewReaderSize(secured, readBuffer)
	c.reading.skip = len(http2.ClientPreface)
	c.tapped = true
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return guardedAddr{Addr: c.Conn.LocalAddr(), conn: c} }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.guard.leave(c)
	c.mu.Lock()
	c.ended = true
	for id := range c.streams {
		c.end(id)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// cut closes the connection without a word, from any goroutine. gRPC sees that and calls Close.
func (c *conn) cut(err error) {
	c.guard.mu.Lock()
	c.guard.warn("a connection was closed", c.raw, err)
	c.guard.mu.Unlock()
	_ = c.raw.Close()
}

// admit says that the connection has a known caller, and whether that may have another one.
// Without a name, it was counted before.
func (c *conn) admit(caller string) bool {
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, in := g.conns[c]; !in || c.known {
		return true
	}
	if caller != "" {
		if !g.cfg.Connections.Enter(caller, 0) {
			return false
		}
		c.holder = caller
	}
	g.strangers--
	c.known = true
	return true
}

// overdue returns why the connection has to be closed now; nil if it may stay.
func (c *conn) overdue(now time.Time, stranger bool) error {
	if stranger && now.Sub(c.since) > c.guard.cfg.RequestTimeout {
		return errNoCaller
	}
	if !c.mu.TryLock() { // it is at work, or waits for memory, for which others do not wait
		return nil
	}
	defer c.mu.Unlock()
	late := now.Add(-c.guard.cfg.ReplyTimeout)
	if c.unread > 0 && c.moved.Before(late) || !c.blocked.IsZero() && c.blocked.Before(late) {
		return errNotReading
	}
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if c.greeted && n > 0 {
		c.greeted = false
		c.admit("")
	}
	for b := p[:n]; len(b) > 0; {
		part, isBody := c.reading.next(&b)
		var hostile error
		if isBody {
			hostile = c.received(part)
		} else if part != nil {
			hostile = c.receiving()
		}
		if hostile != nil {
			c.cut(hostile)
			return 0, errCut
		}
	}
	return n, err
}

// receiving takes the header of a frame.
func (c *conn) receiving() error {
	f := &c.reading
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filling = nil
	switch f.kind() {
	case http2.FrameHeaders:
		refused := !c.tapped
		c.opened, c.tapped = f.stream(), false
		if refused { // the call before
			return c.reset()
		}
	case http2.FrameRSTStream:
		if c.end(f.stream()) {
			return c.reset()
		}
	case http2.FrameData:
		if c.filling = c.streams[f.stream()]; c.filling == nil {
			return nil
		}
		c.body = f.left
		if f.flags().Has(http2.FlagDataPadded) {
			c.body = -1
		}
		if !c.filling.begin(f.left) {
			return errTooFast
		}
		if f.left == 0 {
			c.filling.settle()
		}
	}
	return nil
}

// received takes bytes of a frame.
func (c *conn) received(p []byte) error {
	if c.filling == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.body < 0 {
		c.body = max(0, c.reading.left+len(p)-1-int(p[0]))
		p = p[1:]
	}
	n := min(c.body, len(p))
	c.filling.take(p[:n])
	if c.body -= n; c.reading.left == 0 {
		c.filling.settle()
	}
	return nil
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	var hostile error
	for b := p; len(b) > 0; {
		if part, isBody := c.written.next(&b); part != nil && !isBody && hostile == nil {
			hostile = c.sending()
		}
	}
	c.blocked = time.Now()
	c.mu.Unlock()
	if hostile != nil {
		c.cut(hostile)
		return 0, errCut
	}
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	c.blocked = time.Time{}
	c.mu.Unlock()
	return n, err
}

// sending takes the header of a frame that gRPC sends.
func (c *conn) sending() error {
	f := &c.written
	switch f.kind() {
	case http2.FrameData:
		if s := c.streams[f.stream()]; s != nil {
			s.sent(int64(f.left))
		}
	case http2.FrameHeaders:
		if f.flags().Has(http2.FlagHeadersEndStream) {
			c.end(f.stream())
		}
	case http2.FrameRSTStream: // without a status: the client broke a rule, or its deadline passed
		if c.end(f.stream()) {
			return c.reset()
		}
	}
	return nil
}

// open adds a call, which may be one that is refused.
func (c *conn) open(s *stream, caller string, headers int64, refused bool) {
	c.mu.Lock()
	c.tapped, c.caller = true, caller
	s.id = c.opened
	c.guard.cfg.Budget.Open(&s.claim, caller, s)
	if c.ended {
		s.closed = true
		s.claim.Close()
		c.mu.Unlock()
		return
	}
	c.streams[s.id] = s
	if s.single || s.stranger {
		s.await()
	}
	s.base = callBytes + headers
	ok := s.claim.Take(s.base)
	var hostile error
	if refused {
		hostile = c.reset()
	}
	c.mu.Unlock()
	if !ok {
		hostile = errTooFast
	}
	if !s.stranger && !c.admit(caller) {
		hostile = errTooMany
	}
	if hostile != nil {
		c.cut(hostile)
	}
}

// end removes a call, and reports whether it was there.
func (c *conn) end(id uint32) bool {
	s := c.streams[id]
	if s == nil {
		return false
	}
	delete(c.streams, id)
	c.unread -= s.unread
	s.closed = true
	s.claim.Close()
	return true
}

// reset returns an error if there were too many resets.
func (c *conn) reset() error {
	if c.resets == nil {
		c.resets = rate.NewLimiter(connectionResets, connectionResetBurst)
	}
	if c.resets.Allow() || c.guard.pace(c.caller).Allow() {
		return nil
	}
	return errResets
}

// frames finds the frames in a stream of bytes.
type frames struct {
	skip int // bytes before the first frame
	head [9]byte
	have int // bytes of head
	left int // bytes of the frame that are to come
}

// next cuts a part off b, and reports whether it is of a frame's body. It returns nil for the
// part of a frame's header that is not its end.
func (f *frames) next(b *[]byte) (part []byte, isBody bool) {
	if f.skip > 0 {
		n := min(f.skip, len(*b))
		f.skip, *b = f.skip-n, (*b)[n:]
		return nil, false
	}
	if f.left > 0 {
		n := min(f.left, len(*b))
		part, *b = (*b)[:n], (*b)[n:]
		f.left -= n
		return part, true
	}
	n := copy(f.head[f.have:], *b)
	f.have, *b = f.have+n, (*b)[n:]
	if f.have < len(f.head) {
		return nil, false
	}
	f.have = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	return f.head[:], false
}

func (f *frames) kind() http2.FrameType { return http2.FrameType(f.head[3]) }
func (f *frames) flags() http2.Flags    { return http2.Flags(f.head[4]) }
func (f *frames) stream() uint32 {
	return binary.BigEndian.Uint32(f.head[5:]) & (1<<31 - 1)
}

var _ budget.Holder = (*stream)(nil)
