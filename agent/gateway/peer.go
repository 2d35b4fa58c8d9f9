package gateway

import (
	"net"

	"github.com/scriptorium-dev/scriptorium/proto/unixpeer"
)

// Peer is the process at the other end of a Unix socket.
type Peer = unixpeer.Peer

// PeerOf returns the peer of a connection over a Unix socket. Any other
// connection, and a system that cannot say, is an error.
func PeerOf(conn net.Conn) (Peer, error) { return unixpeer.Of(conn) }
