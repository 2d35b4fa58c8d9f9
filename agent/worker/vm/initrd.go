package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// test is the tests of one package, in the machine.
type test struct {
	Dir  string   // that of the package, below the module's and below testRoot
	Args []string // flags
}

// Where things are in the machine.
const (
	testRoot = "tests"
	listFile = "tests.json"
)

func (t test) dir() string    { return path.Join(testRoot, t.Dir) }
func (t test) binary() string { return path.Join(t.dir(), path.Base(t.Dir)+".test") }

// writeInitrd writes what the machine starts from: files by their names there, and the
// list of the tests.
func writeInitrd(to string, tests []test, files map[string]string) error {
	list, err := json.Marshal(tests)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	a := archive{w: cpio.NewWriter(f), folders: map[string]bool{}}
	a.file(listFile, 0o644, int64(len(list)), strings.NewReader(string(list)))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		a.copy(name, files[name])
	}
	return errors.Join(a.err, a.w.Close(), f.Close())
}

// archive writes files and the folders that they are in. It does nothing after an error.
type archive struct {
	w       *cpio.Writer
	folders map[string]bool
	err     error
}

func (a *archive) copy(name, from string) {
	f, err := os.Open(from)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.file(name, cpio.FileMode(info.Mode().Perm()), info.Size(), f)
}

func (a *archive) file(name string, mode cpio.FileMode, size int64, content io.Reader) {
	a.folder(path.Dir(name))
	a.header(&cpio.Header{Name: name, Mode: cpio.TypeReg | mode, Size: size})
	if a.err == nil {
		_, a.err = io.Copy(a.w, content)
	}
}

// folder makes a folder, and those above it first: the kernel makes none itself.
func (a *archive) folder(name string) {
	if name == "." || a.folders[name] {
		return
	}
	a.folder(path.Dir(name))
	a.folders[name] = true
	a.header(&cpio.Header{Name: name, Mode: cpio.TypeDir | 0o755, Links: 2})
}

func (a *archive) header(h *cpio.Header) {
	if a.err == nil {
		a.err = a.w.WriteHeader(h)
	}
}
