//go:build !linux

package porttest

import (
	"context"
	"net"
)

// reserve finds a port that was free a moment ago.
func reserve() (*net.TCPAddr, func(), error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	return ln.Addr().(*net.TCPAddr), func() {}, ln.Close()
}
