package gatewaytest

import (
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
)

// HoldIdle opens ten thousand connections to the socket, or as many as the limit
// of open files lets one process hold both ends of. On each it sends the request,
// reads a reply that has the prefix, and leaves it idle until the test ends. It
// returns how many bytes the process holds for each connection.
func HoldIdle(t *testing.T, path, request, reply string) (bytesEach int64) {
	t.Helper()
	n := min(10_000, openFiles(t)/2-500)
	before := memoryInUse()
	for i := range n {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		got := make([]byte, len(reply))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != reply {
			t.Fatalf("connection %d: got %q, %v", i, got, err)
		}
	}
	bytesEach = (memoryInUse() - before) / int64(n)
	t.Logf("%d idle connections hold %d bytes each", n, bytesEach)
	return bytesEach
}

func memoryInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// openFiles raises the limit of open files as far as it goes, and returns it.
func openFiles(t *testing.T) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Logf("the limit of open files stays: %v", err)
	}
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int(min(limit.Cur, 1<<20))
}
