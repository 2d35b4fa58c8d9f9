package debugsock_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// getAs asks for the process's command line as another user, and returns what comes.
func getAs(t *testing.T, uid int, path string) string {
	t.Helper()
	got := make(chan string)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			got <- "setresuid: " + errno.Error()
			return
		}
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			got <- "connect: " + err.Error()
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("GET /debug/pprof/cmdline HTTP/1.0\r\n\r\n")) // it may be closed already
		answer, _ := io.ReadAll(conn)
		got <- "answer: " + string(answer)
	}()
	return <-got
}

func TestTheOwnUserConnects(t *testing.T) {
	path, _ := serve(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if got := getAs(t, os.Geteuid(), path); !strings.Contains(got, "200 OK") {
		t.Errorf("the user of the process gets %q", got)
	}
}

// TestOtherUsersAreRefused, whatever the mode of the socket is.
func TestOtherUsersAreRefused(t *testing.T) {
	needs.Root(t, "connects as another user")
	path, log := serve(t)
	for _, p := range []string{path, filepath.Dir(path)} {
		if err := os.Chmod(p, 0o777); err != nil { // somebody's mistake
			t.Fatal(err)
		}
	}
	if got := getAs(t, 65534, path); got != "answer: " {
		t.Errorf("another user gets %q", got)
	}
	if !strings.Contains(log.String(), "uid 65534") {
		t.Errorf("the log does not say who was refused: %s", log)
	}
}
