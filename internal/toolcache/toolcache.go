// Package toolcache builds the programs that development and tests need from the module
// registry: kube-apiserver, etcd, nats-server, linters and generators. It builds each
// once, keeps it with its checksum in the user's cache, and builds it again when a
// version changes or when the file no longer matches its checksum.
package toolcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotBuilt is the error of Find for a program that the cache does not have.
var ErrNotBuilt = errors.New("not built yet")

// module is the path of the main module.
const module = "github.com/scriptorium-dev/scriptorium"

// checksumFile has the SHA-256 of the program beside it, in the format of sha256sum.
const checksumFile = "SHA256SUMS"

// program is a program of the cache. It lies in a folder of its own.
type program struct {
	name   string // of the program, and prefix of the folder
	dir    string // folder of the module that builds it
	pkg    string
	inputs string // the program is built again when they change
	flags  []string
	cgo    bool     // it needs a C compiler
	links  []string // other names of the program
	notice string   // follows "building NAME" in the progress
}

// Get returns the path of the program with that name. It builds the program if the cache
// does not have it, and writes a line to progress before it does. Processes that call Get
// at the same time build once. The working directory is inside the main module's tree.
func Get(ctx context.Context, progress io.Writer, name string) (string, error) {
	p, cache, err := open(name)
	if err != nil {
		return "", err
	}
	dir, err := p.get(ctx, cache, progress)
	return filepath.Join(dir, p.name), err
}

// Find returns the path of the program with that name, and ErrNotBuilt if Get would build it.
func Find(ctx context.Context, name string) (string, error) {
	p, cache, err := open(name)
	if err != nil {
		return "", err
	}
	dir, err := p.folder(ctx, cache)
	if err != nil {
		return "", err
	}
	if err := p.check(dir); err != nil {
		return "", fmt.Errorf("%s is %w: run `go run ./internal/toolcache/build %s`", name, ErrNotBuilt, name)
	}
	return filepath.Join(dir, p.name), nil
}

func open(name string) (p program, cache string, err error) {
	root, err := Root()
	if err != nil {
		return p, "", err
	}
	if p, err = lookUp(root, name); err != nil {
		return p, "", err
	}
	if cache, err = os.UserCacheDir(); err != nil {
		return p, "", err
	}
	return p, filepath.Join(cache, "scriptorium"), nil
}

// Root returns the root of the main module's tree, which is above the working directory.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in the tree of %s: run this inside it", start, module)
		}
	}
}

// get returns the folder of the program, and builds it if it is missing or damaged.
func (p program) get(ctx context.Context, cache string, progress io.Writer) (string, error) {
	dir, err := p.folder(ctx, cache)
	if err != nil {
		return "", err
	}
	if p.check(dir) == nil {
		return dir, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, p.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	err = p.check(dir)
	if err == nil {
		return dir, nil // another process built it meanwhile
	}
	if !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(progress, "%v: building it again\n", err)
	}
	fmt.Fprintf(progress, "building %s%s\n", p.name, p.notice)
	return dir, p.build(ctx, dir)
}

// folder returns where the program lies. It changes when the program has to be built again.
func (p program) folder(ctx context.Context, cache string) (string, error) {
	goes, err := p.golang(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, goes, p.pkg, p.flags, p.inputs)
	return filepath.Join(cache, p.name+"-"+hex.EncodeToString(hash.Sum(nil))[:16]), nil
}

// check returns an error if the program is missing or differs from its checksum.
func (p program) check(dir string) error {
	want, err := os.ReadFile(filepath.Join(dir, checksumFile))
	if err != nil {
		return err
	}
	got, err := p.checksum(dir)
	if err != nil {
		return err
	}
	if got != string(want) {
		return fmt.Errorf("%s does not match its checksum", filepath.Join(dir, p.name))
	}
	return nil
}

// checksum returns what the checksum file has to say.
func (p program) checksum(dir string) (string, error) {
	file, err := os.Open(filepath.Join(dir, p.name))
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x  %s\n", hash.Sum(nil), p.name), nil
}

// build makes the folder whole or not at all.
func (p program) build(ctx context.Context, dir string) error {
	unfinished := dir + ".unfinished" // the caller holds the lock
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return err
	}
	args := append([]string{"build", "-o", filepath.Join(unfinished, p.name)}, p.flags...)
	if _, err := p.golang(ctx, append(args, p.pkg)...); err != nil {
		return fmt.Errorf("build %s: %w", p.name, err)
	}
	for _, link := range p.links {
		if err := os.Symlink(p.name, filepath.Join(unfinished, link)); err != nil {
			return err
		}
	}
	sum, err := p.checksum(unfinished)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(unfinished, checksumFile), []byte(sum), 0o600); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(unfinished, dir))
}

// golang runs the go command in the program's module and returns its output.
func (p program) golang(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath -buildvcs=false", "PWD="+p.dir)
	if !p.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0") // programs then have most compiled packages in common
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], p.dir, err, stderr.String())
	}
	return string(out), nil
}

// lock waits until this process holds the lock of the file, or ctx ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // the lock ends with the file
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for the process that holds %s: %w", path, context.Cause(ctx)), f.Close())
		}
	}
}
