package gateway

import (
	"net"
	"sync"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// UnknownEntry says which connections a TCP port takes. The kernel does not know their callers: each
// shows who it is with its requests. Until then, a connection is one of a few.
type UnknownEntry struct {
	Connections *budget.Connections
	// Bytes are what a connection holds while it is idle.
	Bytes int64
	// Unknown keeps the connections that have not shown who they are.
	Unknown *Latest
}

// Listen returns a listener that hands out each connection of l as an UnknownConn.
func (e UnknownEntry) Listen(l net.Listener) net.Listener {
	return &unknownListener{Listener: l, entry: e}
}

type unknownListener struct {
	net.Listener
	entry UnknownEntry
}

// Accept implements net.Listener.
func (l *unknownListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	c := &UnknownConn{Conn: conn, entry: l.entry}
	c.waiting = l.entry.Unknown.enter(conn, host)
	return c, nil
}

// UnknownConn is a connection of a caller that shows who it is. It is safe for concurrent use.
type UnknownConn struct {
	net.Conn
	entry UnknownEntry

	mu      sync.Mutex
	waiting *latest // nil once the caller is known
	caller  string  // that the connection counts for
	closed  bool
}

// Admit counts the connection for the caller, from the request in which it shows who it is. It reports
// whether the caller may have one more.
func (c *UnknownConn) Admit(caller string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if caller == c.caller || c.closed {
		return !c.closed
	}
	if !c.entry.Connections.Enter(caller, c.entry.Bytes) {
		return false
	}
	c.leave()
	c.caller = caller
	return true
}

// leave gives back the place of the connection. c.mu is held.
func (c *UnknownConn) leave() {
	if c.waiting != nil {
		c.entry.Unknown.remove(c.waiting)
		c.waiting = nil
	}
	if c.caller != "" {
		c.entry.Connections.Leave(c.caller, c.entry.Bytes)
		c.caller = ""
	}
}

// Close implements net.Conn.
func (c *UnknownConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.leave()
	c.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the half that the caller reads.
func (c *UnknownConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
