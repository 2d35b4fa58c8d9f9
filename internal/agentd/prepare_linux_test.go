package agentd_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/script"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// prepare runs the command in dir/run and dir/state.
func prepare(dir string, args ...string) (string, error) {
	var out strings.Builder
	cmd := agentd.PrepareCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"--socket-dir", filepath.Join(dir, "run"), "--state-dir", filepath.Join(dir, "state")}, args...))
	err := cmd.Execute()
	return out.String(), err
}

// folder is a place that any user reaches, without symbolic links.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prepare")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func is(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid)
}

func needsRoot(t *testing.T) {
	t.Helper()
	needs.Root(t, "gives folders to other users")
}

// onThread calls f on a thread of its own after become has changed who that is.
func onThread(t *testing.T, become func() error, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this
		err := become()
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// user becomes a user in a group, and in no other.
func user(uid, gid uintptr) func() error {
	return func() error {
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS, 0, 0, 0}, {unix.SYS_SETRESGID, gid, gid, gid}, {unix.SYS_SETRESUID, uid, uid, uid}} {
			if _, _, e := unix.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				return e
			}
		}
		return nil
	}
}

// rootWithChown keeps of root's capabilities this one, as an init container has it.
func rootWithChown() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_CHOWN, Permitted: 1 << unix.CAP_CHOWN}}
	return unix.Capset(&header, &data[0])
}

const (
	wantSockets = "dgrwxr-x--- 65532:65532"
	wantState   = "drwx------ 65532:65532"
)

func TestPrepare(t *testing.T) {
	needsRoot(t)
	for name, before := range map[string]func(dir string) error{
		"nothing there": func(string) error { return nil },
		"made by the kubelet": func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "run"), 0o755)
		},
		"somebody else's, and open": func(dir string) error {
			path := filepath.Join(dir, "state")
			return firstOf(os.Mkdir(path, 0o700), os.Chmod(path, 0o777|fs.ModeSticky), os.Chown(path, 1000, 1000))
		},
		"ours, with another mode": func(dir string) error {
			path := filepath.Join(dir, "run")
			return firstOf(os.Mkdir(path, 0o700), os.Chown(path, 65532, 65532))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			if err := before(dir); err != nil {
				t.Fatal(err)
			}
			onThread(t, rootWithChown, func() {
				for _, again := range []bool{false, true} {
					out, err := prepare(dir)
					if err != nil {
						t.Error(err)
					}
					if kept := strings.Count(out, "kept "); again && kept != 2 || !again && kept == 2 {
						t.Errorf("again=%t: %s", again, out)
					}
				}
			})
			if got := is(t, filepath.Join(dir, "run")); got != wantSockets {
				t.Errorf("sockets: %s, want %s", got, wantSockets)
			}
			if got := is(t, filepath.Join(dir, "state")); got != wantState {
				t.Errorf("state: %s, want %s", got, wantState)
			}
		})
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestPrepareKeepsWhatIsInside(t *testing.T) {
	needsRoot(t)
	dir := folder(t)
	file := filepath.Join(dir, "state", "precious")
	if err := firstOf(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("x"), 0o640)); err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	if got := is(t, file); got != "-rw-r----- 0:0" {
		t.Errorf("%s", got)
	}
}

// TestCallersOfTheSocketGroup may connect, though the agent is not in that group; and
// others may not.
func TestCallersOfTheSocketGroup(t *testing.T) {
	needsRoot(t)
	dir := folder(t)
	if _, err := prepare(dir, "--socket-gid", "4711"); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "run", "resp.sock")
	var l net.Listener
	onThread(t, user(65532, 65532), func() {
		var err error
		if l, err = gateway.Listen(socket); err != nil {
			t.Error(err)
		}
	})
	if l == nil {
		t.FailNow()
	}
	defer l.Close()
	if got, want := is(t, socket), "Srw-rw---- 65532:4711"; got != want {
		t.Errorf("the socket is %s, want %s", got, want)
	}
	for gid, may := range map[uintptr]bool{4711: true, 4712: false} {
		onThread(t, user(1000, gid), func() {
			err := connect(socket)
			if (err == nil) != may {
				t.Errorf("group %d: %v, want allowed: %t", gid, err, may)
			}
		})
	}
}

// connect connects on this very thread, as the net package need not.
func connect(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

// TestPrepareWithoutRoot does what it may, and says what it may not.
func TestPrepareWithoutRoot(t *testing.T) {
	dir := folder(t)
	uid, gid := os.Getuid(), os.Getgid()
	run := func(f func()) { f() }
	if uid == 0 {
		uid, gid = 1000, 1000
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		run = func(f func()) { onThread(t, user(uintptr(uid), uintptr(gid)), f) }
	}
	own := []string{"--uid", fmt.Sprint(uid), "--gid", fmt.Sprint(gid)}
	run(func() {
		if _, err := prepare(dir, own...); err != nil {
			t.Error(err)
		}
		_, err := prepare(dir, "--uid", "65532")
		if script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "CHOWN") || !strings.Contains(err.Error(), filepath.Join(dir, "run")) {
			t.Errorf("%v, want what is lacking", err)
		}
	})
	if got, want := is(t, filepath.Join(dir, "state")), fmt.Sprintf("drwx------ %d:%d", uid, gid); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPrepareIsNotMisled by a user with write access to the folder above, who keeps putting
// links to other users' files in the folder's place.
func TestPrepareIsNotMisled(t *testing.T) {
	needsRoot(t)
	dir := folder(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	const mode = "drwxr-xr-x 0:0"
	if err := firstOf(os.Mkdir(path("victim"), 0o755), os.Mkdir(path("run"), 0o755), os.Symlink("victim", path("link"))); err != nil {
		t.Fatal(err)
	}
	run, err := os.Open(path("run"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			// run and link change places.
			if err := unix.Renameat2(unix.AT_FDCWD, path("run"), unix.AT_FDCWD, path("link"), unix.RENAME_EXCHANGE); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for i := range 2000 {
		if err := run.Chmod(0o700); err != nil { // so that there is something to change
			t.Error(err)
		}
		_, _ = prepare(dir)
		if got := is(t, path("victim")); got != mode {
			t.Errorf("after %d times: %s, want %s", i+1, got, mode)
			break
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	dir := folder(t)
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := firstOf(
		os.Mkdir(elsewhere, 0o755), os.Symlink(elsewhere, filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "dangling")),
	); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want string }{
		{filepath.Join(dir, "link"), "symbolic link"},
		{filepath.Join(dir, "link", "run"), "symbolic link"},
		{filepath.Join(dir, "dangling"), "symbolic link"},
		{filepath.Join(dir, "dangling", "run"), "symbolic link"},
		{filepath.Join(dir, "file"), "not a folder"},
		{filepath.Join(dir, "file", "run"), "not a folder"},
		{"run/scriptorium", "whole path"},
		{"/", "whole path"},
		{"", "whole path"},
	} {
		_, err := prepare(dir, "--socket-dir", tt.path)
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--socket-dir") {
			t.Errorf("%q: %v, want %q", tt.path, err, tt.want)
		}
	}
	if got, err := os.ReadDir(elsewhere); err != nil || len(got) != 0 {
		t.Errorf("it made %v behind a link, %v", got, err)
	}
	if _, err := prepare(dir, "--gid", "-2"); script.KindOf(err) != script.Invalid {
		t.Errorf("a negative group: %v", err)
	}
}

// TestTenantFolderWithoutRoot: an agent that is in a group can give it the sockets of a tenant, and another one says
// what it lacks.
func TestTenantFolderWithoutRoot(t *testing.T) {
	needsRoot(t)
	dir := folder(t)
	if _, err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	tenants := filepath.Join(dir, "run", "tenants")
	inGroup := func() error {
		gids := [1]uint32{4711}
		if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&gids[0])), 0); e != 0 {
			return e
		}
		for _, call := range [][4]uintptr{{unix.SYS_SETRESGID, 65532, 65532, 65532}, {unix.SYS_SETRESUID, 65532, 65532, 65532}} {
			if _, _, e := unix.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
				return e
			}
		}
		return nil
	}
	onThread(t, inGroup, func() {
		if err := gateway.GroupFolder(tenants, "acme", 4711); err != nil {
			t.Error(err)
		}
	})
	if got, want := is(t, filepath.Join(tenants, "acme")), "dgrwxr-x--- 65532:4711"; got != want {
		t.Errorf("the folder is %s, want %s", got, want)
	}
	onThread(t, user(65532, 65532), func() {
		if err := gateway.GroupFolder(tenants, "shop", 4711); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "in this group") {
			t.Errorf("an agent that is not in the group: %v", err)
		}
	})
}
