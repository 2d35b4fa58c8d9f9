// Package unixpeer says who is at the other end of a Unix socket, and carries that
// to the calls of a gRPC server.
package unixpeer

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Peer is the process at the other end of a Unix socket, as the kernel knew it
// when it connected.
type Peer struct {
	PID int
	UID uint32
	GID uint32 // the primary group
}

// String returns "uid 1000 gid 1000".
func (p Peer) String() string { return fmt.Sprintf("uid %d gid %d", p.UID, p.GID) }

// Of returns the peer of a connection over a Unix socket. Any other connection,
// and a system that cannot say, is an error.
func Of(conn net.Conn) (Peer, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return Peer{}, fmt.Errorf("a %T does not say who its peer is", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	var peer Peer
	var peerErr error
	err = raw.Control(func(fd uintptr) { peer, peerErr = of(fd) })
	if err := errors.Join(err, peerErr); err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	return peer, nil
}
