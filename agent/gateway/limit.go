package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultMaxConnections is how many connections a socket takes unless told.
const DefaultMaxConnections = 20_000

// DefaultBudget is how many bytes of unfinished requests and unread replies a socket
// holds unless told, for all its callers.
const DefaultBudget = 256 << 20

// LimitConnections returns a listener that hands out at most limit connections
// of l at a time. Each one over the limit is given to refuse, which may write a
// few words but must not block, and is closed.
func LimitConnections(l net.Listener, limit int, refuse func(net.Conn)) net.Listener {
	return &limitListener{Listener: l, limit: int64(limit), refuse: refuse}
}

type limitListener struct {
	net.Listener
	limit  int64
	open   atomic.Int64
	refuse func(net.Conn)
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) > l.limit {
			l.refuse(conn)
			_ = conn.Close()
			l.open.Add(-1)
			continue
		}
		release := sync.OnceFunc(func() { l.open.Add(-1) })
		if unix, ok := conn.(*net.UnixConn); ok {
			return &limitedUnixConn{UnixConn: unix, release: release}, nil
		}
		return &limitedConn{Conn: conn, release: release}, nil
	}
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// limitedUnixConn keeps the methods of a Unix connection, SyscallConn among
// them, which PeerOf and the protocols need.
type limitedUnixConn struct {
	*net.UnixConn
	release func()
}

func (c *limitedUnixConn) Close() error {
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
