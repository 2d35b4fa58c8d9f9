package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

// Binaries are the programs of a cluster.
type Binaries struct {
	Etcd, NATS, Registryd, Agentd string // paths

	folder   string
	Software string // what agentd says it is
}

// module is this one's path.
const module = "github.com/scriptorium-dev/scriptorium"

// Build builds the programs into a folder of the user's cache; what has not
// changed is not built again. With reuse, registryd and agentd are those of the last build.
func Build(ctx context.Context, progress io.Writer, reuse bool) (*Binaries, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "scriptorium-faults")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	b := &Binaries{
		folder:    dir,
		Registryd: filepath.Join(dir, "registryd"),
		Agentd:    filepath.Join(dir, "agentd"),
	}
	if b.Etcd, err = toolcache.Get(ctx, progress, "etcd"); err != nil {
		return nil, err
	}
	if b.NATS, err = toolcache.Get(ctx, progress, "nats-server"); err != nil {
		return nil, err
	}
	if !reuse {
		if err := b.build(ctx); err != nil {
			return nil, err
		}
	}
	b.Software, err = output(ctx, "", b.Agentd, "--version")
	return b, err
}

func (b *Binaries) build(ctx context.Context) error {
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return fmt.Errorf("find the module (run this inside its tree): %w", err)
	}
	goroot, err := output(ctx, root, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(b.folder, goroot, root)
	if err != nil {
		return err
	}
	for _, cmd := range []struct{ path, pkg string }{{b.Registryd, "./cmd/registryd"}, {b.Agentd, "./cmd/agentd"}} {
		if _, err := output(ctx, root, "go", "build", "-overlay", overlay, "-o", cmd.path, cmd.pkg); err != nil {
			return err
		}
	}
	return nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, errors.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// The wall clock of a Go program comes from the kernel past every library that
// could be put in between. So that it can jump, registryd and agentd are built with
// a package time whose Now adds an offset, and a main package with one more file
// that sets the offset: at the start and at each SIGUSR1, from the file that
// clockVariable names. The product itself knows nothing of this.
const (
	clockVariable = "SCRIPTORIUM_FAULTS_CLOCK"

	nowBefore = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	nowAfter  = nowBefore + "\tsec += WallOffset\n"
	offset    = "\n// WallOffset is how many seconds the wall clock is ahead.\nvar WallOffset int64\n"

	clockFile = `package main

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() {
	path := os.Getenv("` + clockVariable + `")
	if path == "" {
		return
	}
	set := func() {
		text, err := os.ReadFile(path)
		if err != nil {
			return
		}
		if seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			time.WallOffset = seconds
		}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	set() // only now: whoever changes the file from here on is heard
	go func() {
		for range asked {
			set()
		}
	}()
}
`
)

// writeOverlay writes what `go build -overlay` wants, and returns its path.
func writeOverlay(dir, goroot, root string) (string, error) {
	original := filepath.Join(goroot, "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), nowBefore) != 1 {
		return "", fmt.Errorf("%s: time.Now is not what it was in Go 1.26; adapt nowBefore", original)
	}
	timeFile := filepath.Join(dir, "time.go.txt")
	mainFile := filepath.Join(dir, "clock.go.txt")
	patched := strings.Replace(string(text), nowBefore, nowAfter, 1) + offset
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		original: timeFile,
		filepath.Join(root, "cmd", "agentd", "faults_clock.go"):    mainFile,
		filepath.Join(root, "cmd", "registryd", "faults_clock.go"): mainFile,
	}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	for file, content := range map[string]string{timeFile: patched, mainFile: clockFile, path: string(overlay)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return path, nil
}
