package agentd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/script"
)

// nonroot is the user and group that an agent in a container runs as.
const nonroot = 65532

// defaultStateDir and defaultSocketDir are where an agent keeps things if nobody says.
const (
	defaultStateDir  = "/var/lib/scriptorium"
	defaultSocketDir = "/run/scriptorium"
)

// Modes of the folders. The group of the sockets' folder is inherited by the sockets:
// who is in it may connect, though the agent itself may not be.
const (
	stateMode  = fs.ModeDir | 0o700
	socketMode = fs.ModeDir | fs.ModeSetgid | 0o750
)

// PrepareCommand returns the command that an init container runs as root, so that the
// agent after it need not be: it makes folders on a node the agent's.
func PrepareCommand() *cobra.Command {
	var (
		stateDir, socketDir string
		uid, gid, socketGID int
	)
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Make the agent's folders on a node, so that the agent can run without root",
		Long: `prepare makes the socket folder and the state folder, and gives them to the user that
the agent runs as. It is idempotent: it corrects owners and modes, prints what it
changes, and does not touch the files in the folders. It refuses symbolic links in the
paths, because anyone who can make one could choose what root gives away.

The socket folder gets the mode 2750 and the group --socket-gid. The sockets inherit the
group, and callers in the group can connect. The state folder gets the mode 0700.

prepare must run as root, with the capability CHOWN and no other.`,
		Example: `  agentd prepare --socket-dir /run/scriptorium --state-dir /var/lib/scriptorium
  agentd prepare --socket-gid 33   # callers are in group 33`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socketGID < 0 {
				socketGID = gid
			}
			for _, f := range []folder{
				{flag: "--socket-dir", path: socketDir, uid: uid, gid: socketGID, mode: socketMode},
				{flag: "--state-dir", path: stateDir, uid: uid, gid: gid, mode: stateMode},
			} {
				done, err := f.prepare()
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), done)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&stateDir, "state-dir", defaultStateDir, "folder that scripts are kept in")
	flags.StringVar(&socketDir, "socket-dir", defaultSocketDir, "folder of the sockets")
	flags.IntVar(&uid, "uid", nonroot, "user that the agent runs as")
	flags.IntVar(&gid, "gid", nonroot, "group that the agent runs as")
	flags.IntVar(&socketGID, "socket-gid", -1, "group that may connect to the sockets; --gid when negative")
	flagenv.Bind(cmd)
	return cmd
}

// folder is what a folder is to be.
type folder struct {
	flag     string // that names it
	path     string
	uid, gid int
	mode     fs.FileMode
	info     fs.FileInfo // of what is there
}

func (f folder) String() string {
	return fmt.Sprintf("%s: %v %d:%d", f.path, f.mode, f.uid, f.gid)
}

// prepare makes the folder what it is to be, and says what it did.
func (f folder) prepare() (done string, err error) {
	if f.uid < 0 || f.gid < 0 {
		return "", script.Errorf(script.Invalid, f.flag, "cannot belong to %d:%d: users and groups are not negative", f.uid, f.gid)
	}
	parent, name, err := openParent(f.path)
	if err != nil {
		return "", script.Errorf(script.Invalid, f.flag, "%w", err)
	}
	defer parent.Close() //nolint:errcheck // only a handle
	done = "made"
	if err := parent.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		done = "changed"
	} else if err != nil {
		return "", fmt.Errorf("make %s: %w", f.path, err)
	}
	is, err := look(parent, name, f.path)
	if err != nil {
		return "", script.Errorf(script.Invalid, f.flag, "%w", err)
	}
	if is.mode == f.mode && is.uid == f.uid && is.gid == f.gid {
		return fmt.Sprintf("kept %v", f), nil
	}
	if err := f.give(parent, name, is); err != nil {
		return "", f.explain(err, is)
	}
	return fmt.Sprintf("%s %v", done, f), nil
}

// give changes mode and owner. Only the owner may open any folder, or change the mode, and
// a mode with the group's bit only a member of the group: so the folder is ours for a
// moment. By its name it is given to nobody else, for that may be another's by then.
func (f folder) give(parent *os.Root, name string, is folder) error {
	if is.uid != os.Geteuid() || is.gid != os.Getegid() {
		if err := parent.Lchown(name, os.Geteuid(), os.Getegid()); err != nil {
			return err
		}
	}
	handle, err := parent.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer handle.Close() //nolint:errcheck // only a handle
	if err := is.same(handle.Stat()); err != nil {
		return err
	}
	if is.mode != f.mode {
		if err := handle.Chmod(f.mode); err != nil {
			return err
		}
	}
	return handle.Chown(f.uid, f.gid)
}

// same returns nil if what was opened is what was looked at: whoever may write to the
// folder above may put something else in its place at any time.
func (f folder) same(opened fs.FileInfo, err error) error {
	if err == nil && !os.SameFile(opened, f.info) {
		err = fmt.Errorf("%s was replaced meanwhile: see who does that, and run this again", f.path)
	}
	return err
}

func (f folder) explain(err error, is folder) error {
	if errors.Is(err, fs.ErrPermission) {
		return script.Errorf(script.Denied, f.flag, "%s is %v %d:%d and has to be %v %d:%d, which user %d cannot set: run this as root with the capability CHOWN (%w)",
			f.path, is.mode, is.uid, is.gid, f.mode, f.uid, f.gid, os.Geteuid(), err)
	}
	return fmt.Errorf("prepare %s: %w", f.path, err)
}

// look returns what is there; it has to be a folder.
func look(parent *os.Root, name, path string) (folder, error) {
	info, err := parent.Lstat(name)
	if err != nil {
		return folder{}, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return folder{}, fmt.Errorf("%s is a symbolic link: remove it, or name the folder that it leads to", path)
	}
	if !info.IsDir() {
		return folder{}, fmt.Errorf("%s is not a folder: move it away, or name another path", path)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return folder{}, fmt.Errorf("%s: this system does not say who owns it", path)
	}
	return folder{path: path, uid: int(owner.Uid), gid: int(owner.Gid), mode: info.Mode(), info: info}, nil
}

// openParent opens the folder above path, makes what is missing of it, and follows no
// symbolic links.
func openParent(path string) (parent *os.Root, name string, err error) {
	path = filepath.Clean(path)
	if !filepath.IsAbs(path) || path == "/" {
		return nil, "", fmt.Errorf("%q does not do: name a folder by its whole path, such as %s", path, defaultSocketDir)
	}
	parts := strings.Split(path[1:], "/")
	if parent, err = os.OpenRoot("/"); err != nil {
		return nil, "", err
	}
	for i, part := range parts[:len(parts)-1] {
		next, err := step(parent, part, "/"+strings.Join(parts[:i+1], "/"))
		_ = parent.Close()
		if err != nil {
			return nil, "", err
		}
		parent = next
	}
	return parent, parts[len(parts)-1], nil
}

// step opens a folder in the parent, and makes it if it is missing.
func step(parent *os.Root, name, path string) (*os.Root, error) {
	if err := parent.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	is, err := look(parent, name, path)
	if err != nil {
		return nil, err
	}
	next, err := parent.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := is.same(next.Stat(".")); err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}
