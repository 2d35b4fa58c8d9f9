package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// disk is what changes files: the place where tests put faults.
type disk interface {
	// Write makes a file; durably if sync.
	Write(path string, content []byte, sync bool) error
	Rename(from, to string) error
	// Mkdir makes a folder, unless there is one.
	Mkdir(path string) error
	Remove(path string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(path string) error
	// SyncAll makes everything on the folder's file system durable. ok is false
	// where there is no such call.
	SyncAll(path string) (ok bool, err error)
	// OpenJournal opens a file that is there, to write within it.
	OpenJournal(path string) (journalFile, error)
}

type osDisk struct{}

func (osDisk) Write(path string, content []byte, sync bool) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	return f.Sync()
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (osDisk) Remove(path string) error { return os.Remove(path) }

func (osDisk) SyncDir(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

func (osDisk) SyncAll(path string) (bool, error) { return syncFileSystem(path) }

func (osDisk) OpenJournal(path string) (journalFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return dataFile{f}, nil
}

// dataFile is one of which the content alone matters, and not when it was changed.
type dataFile struct{ *os.File }

// Sync implements journalFile.
func (f dataFile) Sync() error { return syncData(f.File) }

// file is a file to write or to replace.
type file struct {
	path    string
	content []byte
	blob    bool   // it is new, and named by what is in it
	temp    string // where it is written first; path itself if it verifies itself and is new
}

const (
	// manyFiles is the number from which one sync of the file system is
	// cheaper than one of each file.
	manyFiles = 64
	// syncers at work at once: fsync waits for the device, not for a core.
	syncers = 8
	// tempFolders share the temporary files, since creating one locks its folder.
	tempFolders = 16
)

var tempCount atomic.Uint64

func (s *Store) tempPath() string {
	n := tempCount.Add(1)
	return s.path("tmp", strconv.FormatUint(n%tempFolders, 36), strconv.FormatUint(n, 36))
}

// replace makes all files durable: new content under the final names. If
// touched is false, an error left everything as it was; else any of the names
// may hold new content or old, each whole.
//
// Blobs, which are new and named by what is in them, need no other name at first
// when there are many: one that is torn shows.
func (s *Store) replace(files []file) (touched bool, err error) {
	if len(files) == 0 {
		return false, nil
	}
	each, writers := true, syncers
	if len(files) > manyFiles {
		each, writers = false, runtime.GOMAXPROCS(0)
	}
	for i := range files {
		files[i].temp = s.tempPath()
		if files[i].blob && !each {
			files[i].temp = files[i].path
		}
	}
	err = inParallel(writers, files, func(f file) error { return s.disk.Write(f.temp, f.content, each) })
	if err == nil && !each {
		each, err = s.syncAllOr(func() error {
			return inParallel(syncers, files, func(f file) error { return syncFile(f.temp) })
		})
	}
	if err != nil {
		for _, f := range files {
			_ = s.disk.Remove(f.temp) // it may never have been made; the next load removes what is left
		}
		return false, err
	}
	dirs := map[string]struct{}{}
	for _, f := range files {
		dirs[filepath.Dir(f.path)] = struct{}{}
		if f.temp == f.path {
			continue
		}
		if err := s.disk.Rename(f.temp, f.path); err != nil {
			return true, err
		}
	}
	return true, s.syncDirs(dirs, each)
}

// syncAllOr syncs the file system, or calls fallback where that cannot be done.
// each reports that it was the fallback.
func (s *Store) syncAllOr(fallback func() error) (each bool, err error) {
	ok, err := s.disk.SyncAll(s.dir)
	if ok {
		return false, err
	}
	return true, fallback()
}

func (s *Store) syncDirs(dirs map[string]struct{}, each bool) error {
	sync := func() error {
		list := make([]string, 0, len(dirs))
		for dir := range dirs {
			list = append(list, dir)
		}
		return inParallel(syncers, list, s.disk.SyncDir)
	}
	if each || len(dirs) <= manyFiles {
		return sync()
	}
	_, err := s.syncAllOr(sync)
	return err
}

func inParallel[T any](workers int, items []T, do func(T) error) error {
	if len(items) == 1 {
		return do(items[0])
	}
	var g errgroup.Group
	g.SetLimit(workers)
	for _, item := range items {
		g.Go(func() error { return do(item) })
	}
	return g.Wait()
}

func syncFile(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

// lockFolder takes the folder for this process until the file is closed.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := f.ReadAt(holder, 0)
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			process := string(holder[:n])
			if process == strconv.Itoa(os.Getpid()) {
				process += ", which is this one"
			}
			return nil, fmt.Errorf("the state folder %s is %w (process %s): give each agent a folder of its own", dir, ErrInUse, process)
		}
		return nil, fmt.Errorf("lock the state folder %s: %w", dir, err)
	}
	// The process's number is a courtesy to the reader of the error above.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return f, nil
}
