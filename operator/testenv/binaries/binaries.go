// Package binaries builds what a Kubernetes API needs to run in a test: etcd,
// kube-apiserver and kubectl, from the module registry. It is done once: what was
// built is kept in the user's cache, and used until a version changes.
package binaries

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

// Binaries are paths of programs. APIServer ends at once when it is stopped, and when who
// started it is gone. Attended, which wants to be called etcd and to have Etcd beside
// it as etcd-server, does that to it.
type Binaries struct {
	APIServer, Kubectl, Etcd, Attended string
}

// module is this one's path.
const module = "github.com/scriptorium-dev/scriptorium"

// program is a folder of the cache with one program, and what it is built from.
type program struct {
	name   string // of the folder and of the program
	from   string // the module's folder
	pkg    string
	what   string // changes when it has to be built again
	flags  []string
	links  []string // other names of the program
	notice string   // what is said before it is built
}

// Build returns the programs, and builds those that are not in the cache; progress
// gets a line before what takes long. Processes that call it at the same time build
// once. The working directory is inside the module's tree.
func Build(ctx context.Context, progress io.Writer) (Binaries, error) {
	root, err := Root()
	if err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, err
	}
	cache = filepath.Join(cache, "scriptorium")
	kube, err := kubeAPIServer(root)
	if err != nil {
		return Binaries{}, err
	}
	etcd, err := etcdServer(root)
	if err != nil {
		return Binaries{}, err
	}
	kubeDir, err := kube.built(ctx, cache, progress)
	if err != nil {
		return Binaries{}, err
	}
	etcdDir, err := etcd.built(ctx, cache, progress)
	if err != nil {
		return Binaries{}, err
	}
	return Binaries{
		APIServer: filepath.Join(kubeDir, "kube-apiserver"),
		Kubectl:   filepath.Join(kubeDir, "kubectl"),
		Etcd:      filepath.Join(etcdDir, "etcd"),
		Attended:  filepath.Join(kubeDir, "kube-apiserver"),
	}, nil
}

// Root returns the root of the module's tree, which is above the working directory.
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

// kubeAPIServer is what the module beside this package makes. A release of
// Kubernetes has its version from the linker, and so has this.
func kubeAPIServer(root string) (program, error) {
	from := filepath.Join(root, "operator", "testenv", "kube")
	version, err := required(from, "k8s.io/kubernetes")
	if err != nil {
		return program{}, err
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	ldflags := "-s -w"
	for _, set := range []string{"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean"} {
		ldflags += " -X k8s.io/component-base/version." + set
	}
	var what strings.Builder
	files, err := filepath.Glob(filepath.Join(from, "*.*"))
	if err != nil {
		return program{}, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return program{}, err
		}
		fmt.Fprintf(&what, "%s %d\n%s", filepath.Base(file), len(text), text)
	}
	return program{
		name: "kube-apiserver", from: from, pkg: ".", what: what.String(), flags: []string{"-ldflags", ldflags}, links: []string{"kubectl"},
		notice: "building kube-apiserver " + version + ": this takes about 5 minutes, once",
	}, nil
}

// etcdServer is the etcd of the module of tools.
func etcdServer(root string) (program, error) {
	const pkg = "go.etcd.io/etcd/server/v3"
	from := filepath.Join(root, "tools")
	version, err := required(from, pkg)
	if err != nil {
		return program{}, err
	}
	return program{name: "etcd", from: from, pkg: pkg, what: version, notice: "building etcd " + version}, nil
}

// required returns the version of a module that the one in a folder requires.
func required(dir, path string) (string, error) {
	file := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == path {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file, path)
}

// built returns the folder of the program, and builds it if it is not there.
func (p program) built(ctx context.Context, cache string, progress io.Writer) (string, error) {
	digest, err := p.digest(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, p.name+"-"+digest)
	if exists(dir) {
		return dir, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, p.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) {
		return dir, nil // another process has built it while this one waited
	}
	fmt.Fprintln(progress, p.notice)
	return dir, p.build(ctx, dir)
}

// digest changes when the program has to be built again.
func (p program) digest(ctx context.Context) (string, error) {
	goes, err := p.golang(ctx, "env", "GOVERSION", "GOOS", "GOARCH")
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, goes, p.pkg, p.flags, p.what)
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// build makes the folder whole or not at all.
func (p program) build(ctx context.Context, dir string) error {
	unfinished := dir + ".unfinished" // nobody else's: the lock is held
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
	return os.Rename(unfinished, dir)
}

// golang runs the go command in the program's module and returns what it printed.
func (p program) golang(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = p.from
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+p.from)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], p.from, err, said.String())
	}
	return string(out), nil
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// lock waits until the file is locked for this process, or ctx ends.
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
