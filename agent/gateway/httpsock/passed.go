package httpsock

import (
	"context"
	"net"
	"sync"
)

// passedListener has the connections that are passed to net/http.
type passedListener struct {
	conns  chan *passedConn
	closed chan struct{}
	once   sync.Once
}

func newPassedListener() *passedListener {
	return &passedListener{conns: make(chan *passedConn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *passedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *passedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*passedListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// passedConn is a connection of which a part was read before net/http got it.
type passedConn struct {
	net.Conn
	ctx    context.Context // has the peer
	rest   []byte
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (c *passedConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil
	}
	return n, nil
}

// CloseWrite lets net/http close the connection so that its client can read the last answer.
func (c *passedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *passedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}
