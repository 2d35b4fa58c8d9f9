// Package porttest is for tests that have to say where a server will listen before it
// does, or that stop one and start it again at its address.
package porttest

import (
	"net"
	"testing"
)

// Reserve returns a TCP port on loopback at which nobody listens. Until release is called
// a server listens there only if it asks for that very port: on Linux the system gives the
// port to nobody who asks for any, even between two servers; elsewhere it may.
func Reserve() (address *net.TCPAddr, release func(), err error) { return reserve() }

// Address reserves a port until the test ends, and returns its "host:port".
func Address(tb testing.TB) string {
	tb.Helper()
	return untilTheEnd(tb).String()
}

// Port is Address for who wants the number alone.
func Port(tb testing.TB) int {
	tb.Helper()
	return untilTheEnd(tb).Port
}

func untilTheEnd(tb testing.TB) *net.TCPAddr {
	tb.Helper()
	address, release, err := Reserve()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	return address
}
