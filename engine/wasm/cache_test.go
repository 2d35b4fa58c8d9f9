package wasm_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// cached compiles and runs a module with a cache.
func cached(t *testing.T, config wasm.Config, code []byte) {
	t.Helper()
	e, err := wasm.New(config)
	if err != nil {
		t.Fatal(err)
	}
	want(t, compile(t, e, code, false), invocation(`7`), `7`)
}

// files returns the files in the cache by their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	code := handle(echo).bytes(t)
	cached(t, wasm.Config{CacheDir: dir}, code)
	first := files(t, dir)
	if len(first) != 2 {
		t.Fatalf("there are %d files, want machine code and its digest", len(first))
	}
	cached(t, wasm.Config{CacheDir: dir}, code)
	for path, content := range files(t, dir) {
		if first[path] != content {
			t.Errorf("%s has changed", path)
		}
	}
	for path, content := range first { // whatever is damaged, it is made anew
		for name, damaged := range map[string]string{
			"cut": content[:len(content)/2], "empty": "", "changed": content[:len(content)-1] + "x", "longer": content + "x", "first byte": "x" + content[1:],
		} {
			if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
			cached(t, wasm.Config{CacheDir: dir}, code)
			if again := files(t, dir); again[path] != content {
				t.Errorf("%s, %s: not made anew", filepath.Base(path), name)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		cached(t, wasm.Config{CacheDir: dir}, code)
	}
}

func TestCacheIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	size := func() (n int) {
		for _, content := range files(t, dir) {
			n += len(content)
		}
		return n
	}
	cached(t, wasm.Config{CacheDir: dir}, handle(echo).bytes(t))
	one := size()
	for n := range 10 {
		g := handle(echo)
		g.data = map[int]string{100: strings.Repeat("x", n+1)}
		cached(t, wasm.Config{CacheDir: dir, CacheBytes: int64(4 * one)}, g.bytes(t))
	}
	if got := size(); got > 5*one || got < 3*one {
		t.Errorf("the cache has %d bytes, a module takes %d, and 4 of them are allowed", got, one)
	}
}

// TestCacheThatFails: what cannot be kept is compiled all the same.
func TestCacheThatFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	e, err := wasm.New(wasm.Config{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory can be made in it
		t.Fatal(err)
	}
	want(t, compile(t, e, handle(echo).bytes(t), false), invocation(`7`), `7`)

	if _, err := wasm.New(wasm.Config{CacheDir: dir}); script.KindOf(err) != script.Unavailable {
		t.Errorf("a file as the directory: %v", err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := wasm.New(wasm.Config{CacheDir: open}); script.KindOf(err) != script.Invalid {
		t.Errorf("a directory that everybody can write to: %v", err)
	}
}
