package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// cache bounds and checks what wazero keeps on disk. Each module has a directory of its own, named by the digest of its
// code, in which wazero makes one file. Beside it is the digest of that file, without which nobody reads it: wazero
// itself checks only the machine code, by a CRC. A digest keeps out what a disk has damaged. Against people there is
// the mode of the directory alone, so that one that others can write to is refused.
type cache struct {
	dir  string
	most int64
	mu   sync.Mutex
}

const sumFile = "sha256"

func openCache(dir string, most int64) (*cache, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, script.Errorf(script.Unavailable, "", "the directory for compiled modules cannot be used: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ownedByUs(info) {
		return nil, script.Errorf(script.Invalid, "", "%s holds machine code, and others can write to it: give it to the user of this process with mode 0700", dir)
	}
	return &cache{dir: dir, most: most}, nil
}

// open returns the directory for the code, with what is in it checked. The caller calls done once when wazero has
// used it, and says whether it could.
func (c *cache) open(code []byte) (dir string, done func(ok bool)) {
	sum := sha256.New()
	_, _ = io.WriteString(sum, runtime.GOARCH+" "+runtime.Version()+"\n") // wazero adds its version
	sum.Write(code)
	dir = filepath.Join(c.dir, hex.EncodeToString(sum.Sum(nil)))
	c.mu.Lock()
	defer c.mu.Unlock()
	known, err := os.ReadFile(filepath.Join(dir, sumFile))
	fresh := err != nil || string(known) != digestOf(dir)
	if fresh {
		_ = os.RemoveAll(dir)
	}
	return dir, func(ok bool) { c.done(dir, fresh, ok) }
}

func (c *cache) done(dir string, fresh, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ok {
		_ = os.RemoveAll(dir)
		return
	}
	if fresh && os.WriteFile(filepath.Join(dir, sumFile), []byte(digestOf(dir)), 0o600) != nil {
		_ = os.RemoveAll(dir)
		return
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
	c.trim()
}

// digestOf returns the digest of all files in a module's directory but sumFile, "" if they cannot be read.
func digestOf(dir string) string {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sumFile && filepath.Dir(path) == dir {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, _ = io.WriteString(sum, d.Name()+"\n")
		_, err = io.Copy(sum, f)
		return err
	})
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// trim removes the modules that were not used for longest, until there is room.
func (c *cache) trim() {
	type module struct {
		dir   string
		bytes int64
		used  time.Time
	}
	var all []module
	var total int64
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || len(e.Name()) != 2*sha256.Size {
			continue
		}
		m := module{dir: filepath.Join(c.dir, e.Name()), used: info.ModTime()}
		_ = filepath.WalkDir(m.dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if info, err := d.Info(); err == nil {
					m.bytes += info.Size()
				}
			}
			return nil
		})
		all = append(all, m)
		total += m.bytes
	}
	slices.SortFunc(all, func(a, b module) int { return a.used.Compare(b.used) })
	for _, m := range all {
		if total <= c.most {
			return
		}
		_ = os.RemoveAll(m.dir)
		total -= m.bytes
	}
}
