package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/script"
)

// SocketMode is the mode of the sockets for callers: owner and group may connect. With OwnMode, the
// owner alone may.
const (
	SocketMode fs.FileMode = 0o660
	OwnMode    fs.FileMode = 0o600
)

// maxPathLen is what fits into a socket's address everywhere, its NUL left out.
const maxPathLen = min(104, len(syscall.RawSockaddrUnix{}.Path)-1)

// Listen listens on a Unix socket at path, with SocketMode. It makes the folder
// if there is none, and takes the place of a socket that nobody answers on; one
// that somebody answers on, or a file of another kind, is an error. Closing the
// listener removes the socket.
func Listen(path string) (*net.UnixListener, error) { return ListenMode(path, SocketMode) }

// ListenMode is Listen with another mode.
func ListenMode(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if len(path) > maxPathLen {
		return nil, script.Errorf(script.Invalid, "socket",
			"the path %s has %d bytes, but a Unix socket's path may have %d: choose a shorter folder for the sockets",
			path, len(path), maxPathLen)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of socket %s: %w", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// On Linux a socket is born with its descriptor's mode less the umask, so
	// that at no moment anybody else can connect. Where that does not work, the
	// chmod below does it a moment later.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	// Not if it has the mode: whoever else may write into the folder can have put a link there by now.
	if info, err := os.Lstat(path); err == nil && info.Mode() == fs.ModeSocket|mode {
		return l.(*net.UnixListener), nil
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of socket %s: %w", path, err), l.Close())
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes a socket that a process left behind.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return script.Errorf(script.Invalid, "socket", "%s is there and is not a socket: move it away or choose another path", path)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		_ = conn.Close()
		return script.Errorf(script.Conflict, "socket", "another process serves on %s: stop it or choose another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("see whether anybody serves on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}
