package gatewaytest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// idle is how many connections HoldIdle holds.
const idle = 10_000

// The variables that make a test's process the client of HoldIdle.
const (
	holdPath    = "GATEWAYTEST_HOLD_IDLE"
	holdRequest = "GATEWAYTEST_HOLD_REQUEST"
	holdReply   = "GATEWAYTEST_HOLD_REPLY"
)

// Main is the TestMain of packages that use HoldIdle.
func Main(m *testing.M) {
	path, ok := os.LookupEnv(holdPath)
	if !ok {
		os.Exit(m.Run())
	}
	request, _ := strconv.Unquote(os.Getenv(holdRequest)) // HoldIdle quoted them
	reply, _ := strconv.Unquote(os.Getenv(holdReply))
	if err := hold(path, request, reply); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// HoldIdle opens ten thousand connections to the socket, from a process of its
// own: no process need have files for both ends. On each it sends the request,
// reads a reply that has the prefix, and leaves it idle until the test ends. It
// returns how many bytes this process holds for each.
func HoldIdle(t *testing.T, path, request, reply string) (bytesEach int64) {
	t.Helper()
	before := memoryInUse()
	client := exec.CommandContext(t.Context(), os.Args[0])
	client.Env = append(os.Environ(), holdPath+"="+path, holdRequest+"="+strconv.Quote(request), holdReply+"="+strconv.Quote(reply))
	stdin, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close() // and the client ends
		_ = client.Wait()
	})
	said := make([]byte, 1024)
	n, err := stdout.Read(said)
	if err != nil || string(said[:n]) != holding {
		t.Fatalf("the client says %q, %v", said[:n], err)
	}
	bytesEach = (memoryInUse() - before) / idle
	t.Logf("%d idle connections hold %d bytes each", idle, bytesEach)
	return bytesEach
}

const holding = "holding\n"

// hold opens the connections and keeps them until standard input ends.
func hold(path, request, reply string) error {
	for i := range idle {
		conn, err := net.Dial("unix", path) //nolint:noctx // the process ends with its test
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, request); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		got := make([]byte, len(reply))
		if _, err := io.ReadFull(conn, got); err != nil || !strings.HasPrefix(string(got), reply) {
			return errors.Join(fmt.Errorf("connection %d: got %q", i, got), err)
		}
	}
	fmt.Print(holding)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func memoryInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
