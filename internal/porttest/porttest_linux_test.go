package porttest_test

import (
	"net"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// TestAddress: a server comes and goes there, and meanwhile nobody else gets the port.
func TestAddress(t *testing.T) {
	address := porttest.Address(t)
	refused := func(when string) {
		t.Helper()
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("%s: somebody listens", when)
		}
	}
	refused("before")
	for range 2 {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		ln.Close()
		refused("after")
	}
	for range 500 {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if other.Addr().String() == address {
			t.Fatal("the port was given to another")
		}
	}
}
