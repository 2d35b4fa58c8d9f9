package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// DefaultBudget is how many bytes of unfinished requests and unread replies the sockets
// hold unless told, for all their callers.
const DefaultBudget = 256 << 20

// IdleBytes is how many bytes idle connections hold unless told, those of all sockets.
const IdleBytes = DefaultBudget / 2

// Entry says which connections a socket takes. All its fields but Spare are required.
type Entry struct {
	Access      *Access
	Connections *budget.Connections
	// Bytes are what a connection holds while it is idle.
	Bytes int64
	// Refuse gets each connection too many, before it is closed. It may write a few words
	// but must not block.
	Refuse func(net.Conn)
	// Spare gets those too many in place of Refuse, if it is not nil.
	Spare *Latest
}

// Listen returns a listener that hands out the connections of l that may enter.
func (e Entry) Listen(l net.Listener) net.Listener { return &entryListener{Listener: l, entry: e} }

type entryListener struct {
	net.Listener
	entry Entry
}

// Accept implements net.Listener.
func (l *entryListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		e, tenant := l.entry, tenantOf(conn)
		caller := e.Access.GrantOf(conn).Caller()
		if e.Connections.Enter(caller, e.Bytes) {
			return hold(conn, holder{release: func() { e.Connections.Leave(caller, e.Bytes) }, tenant: tenant}), nil
		}
		if e.Spare != nil {
			return e.Spare.hold(conn, caller), nil
		}
		e.Refuse(conn)
		_ = conn.Close()
	}
}

// hold returns conn, and calls release when it is closed.
func hold(conn net.Conn, h holder) net.Conn {
	h.release = sync.OnceFunc(h.release)
	switch c := conn.(type) {
	case *net.UnixConn:
		return &heldUnixConn{UnixConn: c, holder: h}
	case *heldUnixConn: // of a OneTenant, which holds nothing
		return &heldUnixConn{UnixConn: c.UnixConn, holder: h}
	}
	return &heldConn{Conn: conn, holder: h}
}

type holder struct {
	release func()
	spare   bool
	tenant  string // whose socket it is; "": all tenants'
}

func (h holder) isSpare() bool { return h.spare }

func (h holder) onlyTenant() string { return h.tenant }

type heldConn struct {
	net.Conn
	holder
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// heldUnixConn keeps the methods of a Unix connection, SyscallConn among them, which
// PeerOf and the protocols need.
type heldUnixConn struct {
	*net.UnixConn
	holder
}

// Close implements net.Conn.
func (c *heldUnixConn) Close() error {
	defer c.release()
	return c.UnixConn.Close()
}

// Accept accepts a connection of l. When the process is short of descriptors or
// memory it logs that and tries again a little later, until ctx is done: a
// socket that stopped accepting would stay dead long after the shortage.
func Accept(ctx context.Context, l net.Listener, logger *slog.Logger) (net.Conn, error) {
	const least, most = 5 * time.Millisecond, time.Second
	for delay := least; ; delay = min(2*delay, most) {
		conn, err := l.Accept()
		if err == nil || !isShortage(err) {
			return conn, err
		}
		logger.Warn("no connection can be accepted now; trying again", "error", err, "after", delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func isShortage(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
