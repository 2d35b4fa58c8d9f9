package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Protocols are those that have sockets, by the names of these without ".sock".
var Protocols = []string{"grpc", "http", "resp", "spop"}

// groupFolder is the mode of a folder whose sockets belong to a group: those who are in it reach them, and
// sockets inherit it.
const groupFolder = fs.ModeDir | fs.ModeSetgid | 0o750

// passable lets everybody pass through a folder, and read nothing of it.
const passable = 0o011

// GroupFolder makes the folder of one tenant's sockets in dir, whose sockets members of the group may use and
// nobody else. It follows no symbolic link to it, and takes no folder that other users could have prepared:
// the sockets in it let in whoever reaches them.
func GroupFolder(dir, tenant string, gid int) error {
	if err := passableFolder(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, tenant)
	folder, err := ownFolder(dir, tenant)
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // only a handle
	if err := errors.Join(folder.Chown(-1, gid), folder.Chmod(groupFolder)); err != nil {
		return badFolder("%s cannot be given to group %d: run the agent as root, or as a user who is in this group: %w", path, gid, err)
	}
	info, err := folder.Stat()
	if err != nil {
		return fmt.Errorf("look at the folder of sockets %s: %w", path, err)
	}
	if owner, ok := ownerOf(info); !ok || int(owner.Gid) != gid || info.Mode() != groupFolder {
		return badFolder("%s is %v and not %v of group %d: run the agent as a user who is in this group", path, info.Mode(), groupFolder, gid)
	}
	return nil
}

func badFolder(format string, args ...any) error {
	return script.Errorf(script.Invalid, "socket", "the folder of sockets "+format, args...)
}

// passableFolder makes the folder of tenants' folders. Every group gets through it, and nobody else can put
// something into it.
func passableFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of sockets %s: %w", dir, err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the folder of sockets %s: %w", dir, err)
	}
	if owner, ok := ownerOf(info); !info.IsDir() || !ok || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return badFolder("%s is %v: want a folder that only this agent's user or root can write to", dir, info.Mode())
	}
	if info.Mode().Perm()&passable == passable {
		return nil
	}
	if err := os.Chmod(dir, info.Mode()|passable); err != nil { // the umask took it away
		return fmt.Errorf("let the groups of sockets pass through %s: %w", dir, err)
	}
	return nil
}

// ownFolder opens the folder of a tenant, and makes it if it is not there.
func ownFolder(dir, tenant string) (*os.File, error) {
	path := filepath.Join(dir, tenant)
	parent, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of sockets %s: %w", dir, err)
	}
	defer parent.Close() //nolint:errcheck // only a handle
	if err := parent.Mkdir(tenant, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of sockets %s: %w", path, err)
	}
	folder, err := parent.OpenFile(tenant, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, badFolder("%s cannot be opened: it has to be a folder, and no symbolic link: %w", path, err)
	}
	info, err := folder.Stat()
	if err == nil {
		if owner, ok := ownerOf(info); !ok || int(owner.Uid) != os.Geteuid() {
			err = badFolder("%s belongs to another user than this agent's: remove it", path)
		}
	}
	if err != nil {
		_ = folder.Close()
		return nil, err
	}
	return folder, nil
}

func ownerOf(info fs.FileInfo) (*syscall.Stat_t, bool) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return owner, ok
}

// RemoveDead removes the sockets in the folders of tenants in dir that no agent serves any more, as an agent
// leaves them that was killed, and what GroupFolder has made. It keeps those of the tenants that keep says, and
// all other files. No agent with this folder may run.
func RemoveDead(dir string, keep func(tenant string) bool) error {
	folders, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, folder := range folders {
		if !folder.IsDir() || keep(folder.Name()) { // a symbolic link is no folder
			continue
		}
		for _, protocol := range Protocols {
			path := filepath.Join(dir, folder.Name(), protocol+".sock")
			if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
				continue
			}
			errs = append(errs, removeStale(path))
		}
		if path := filepath.Join(dir, folder.Name()); ofOtherGroup(path, dir) {
			_ = os.Remove(path) // unless somebody has put something there
		}
	}
	return errors.Join(errs...)
}

// ofOtherGroup reports whether GroupFolder made the folder. Its group would keep out those that may use the folder that
// the agent makes next, with the group of the folder above.
func ofOtherGroup(path, above string) bool {
	info, err := os.Lstat(path)
	outer, errOuter := os.Lstat(above)
	if err != nil || errOuter != nil || info.Mode() != groupFolder {
		return false
	}
	owner, ok := ownerOf(info)
	outerOwner, okOuter := ownerOf(outer)
	return ok && okOuter && owner.Gid != outerOwner.Gid
}
