package scriptctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/scriptorium-dev/scriptorium/script"
)

// pendingFile is a file that gets its name when it is complete, so that nobody
// finds half of one under that name.
type pendingFile struct {
	*os.File
	path string
}

// newFile returns a file that becomes path. The caller keeps or discards it.
func newFile(path string, mode fs.FileMode) (*pendingFile, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the link stays one
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no plain file: name another", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, cannotWrite(path, err)
	}
	p := &pendingFile{File: f, path: path}
	if err := f.Chmod(mode); err != nil {
		p.discard()
		return nil, cannotWrite(path, err)
	}
	return p, nil
}

// keep gives the file its name. Unless replace, it is an error that wraps
// fs.ErrExist if there is a file of that name.
func (p *pendingFile) keep(replace bool) error {
	defer p.discard()
	if err := errors.Join(p.Sync(), p.Close()); err != nil {
		return err
	}
	move := moveNew
	if replace {
		move = os.Rename
	}
	if err := move(p.Name(), p.path); err != nil {
		return cannotWrite(p.path, err)
	}
	dir, err := os.Open(filepath.Dir(p.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// moveNew is os.Rename that replaces nothing.
func moveNew(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, statErr := os.Lstat(to); statErr == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to) // a file system without links
}

// cannotWrite names the file that was to be, and not the one that it is until then.
func cannotWrite(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s cannot be written: %w", path, err)
}

// discard removes what was not kept.
func (p *pendingFile) discard() {
	_ = p.Close()           // it is so already if it was kept
	_ = os.Remove(p.Name()) // likewise
}

// writeFile writes a file whole or not at all.
func writeFile(path string, mode fs.FileMode, replace bool, data []byte) error {
	f, err := newFile(path, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.discard()
		return cannotWrite(path, err)
	}
	err = f.keep(replace)
	if errors.Is(err, fs.ErrExist) {
		return there(path)
	}
	return err
}

// lockFolder waits until no other process changes a file of this one's folder by what it holds.
func lockFolder(file string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = dir.Close() } // the lock ends with the descriptor
	for {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EBADF) {
			err = nil // a file system without locks
		}
		return unlock, err
	}
}

// wantNoFile is a usage error if there is such a file.
func wantNoFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return there(path)
	}
	return nil
}

func there(path string) error {
	return usage(script.Errorf(script.Invalid, "", "%s is there already: name another file, or replace it with --force", path))
}
