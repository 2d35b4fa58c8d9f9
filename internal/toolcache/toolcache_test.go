package toolcache

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// tiny is a program that is built in no time, in a module of its own.
func tiny(t *testing.T, source string) program {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/tiny\n\ngo 1.26\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return program{name: "tiny", dir: dir, pkg: ".", inputs: source, links: []string{"other"}}
}

const hello = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(os.Args[0]) }\n"

type progress struct {
	mu    sync.Mutex
	lines []string
}

func (p *progress) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, string(line))
	return len(line), nil
}

// TestBuiltOnce: of many that want a program at the same time one builds it, and the
// others wait; who comes later waits for nobody.
func TestBuiltOnce(t *testing.T) {
	p, cache, said := tiny(t, hello), t.TempDir(), &progress{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			dir, err := p.get(t.Context(), cache, said)
			if err != nil {
				t.Error(err)
				return
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "other")).Output()
			if err != nil || filepath.Base(string(out)) != "other" {
				t.Errorf("the program says %q, %v", out, err)
			}
		})
	}
	all.Wait()
	if len(said.lines) != 1 {
		t.Errorf("built %d times: %q", len(said.lines), said.lines)
	}
	before, err := p.get(t.Context(), cache, said)
	if err != nil || len(said.lines) != 1 {
		t.Errorf("built again: %v, %q", err, said.lines)
	}
	p.inputs += "changed"
	after, err := p.get(t.Context(), cache, said)
	if err != nil || after == before || len(said.lines) != 2 {
		t.Errorf("what changed was not built: %v, %q", err, said.lines)
	}
}

// TestNotBuilt: a build that fails says why, and leaves nothing that would be taken for
// the program.
func TestNotBuilt(t *testing.T) {
	p, cache := tiny(t, "package main\n\nfunc main() { nonsense }\n"), t.TempDir()
	for range 2 {
		_, err := p.get(t.Context(), cache, &progress{})
		if err == nil || !strings.Contains(err.Error(), "build tiny") || !strings.Contains(err.Error(), "main.go:3") {
			t.Errorf("got %v", err)
		}
	}
}

// TestLockEndsWithContext: lock waits for a process that builds until its context ends.
func TestLockEndsWithContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lock(ctx, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	unlock()
	if unlock, err = lock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestDamaged: a program that differs from its checksum is built again, and is not found
// before.
func TestDamaged(t *testing.T) {
	p, cache, said := tiny(t, hello), t.TempDir(), &progress{}
	dir, err := p.get(t.Context(), cache, said)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tiny")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-1], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.check(dir); err == nil {
		t.Error("a program without its last byte is taken for whole")
	}
	said.lines = nil
	if _, err := p.get(t.Context(), cache, said); err != nil || len(said.lines) != 2 || !strings.Contains(said.lines[0], "checksum") {
		t.Errorf("got %v, progress %q", err, said.lines)
	}
	if out, err := exec.CommandContext(t.Context(), path).Output(); err != nil || string(out) != path {
		t.Errorf("the program prints %q, %v", out, err)
	}
}

// TestNames: every program has a module that pins it, and an unknown name gets the list.
func TestNames(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(root, toolsModule, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		p, err := lookUp(root, name)
		if err != nil || p.name != name || p.inputs == "" {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
		if tools[name] != "" && !strings.Contains(string(gomod), "\n\t"+p.pkg+"\n") {
			t.Errorf("%s is not a tool of %s/go.mod", p.pkg, toolsModule)
		}
	}
	kube, err := lookUp(root, apiServer)
	if err != nil || !strings.Contains(strings.Join(kube.flags, " "), "gitVersion=v1.") {
		t.Errorf("%v, %v", kube.flags, err)
	}
	if _, err := Get(t.Context(), &progress{}, "ectd"); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("got %v", err)
	}
	if _, err := required(filepath.Join(root, toolsModule), "example.com/none"); err == nil {
		t.Error("a module is required that is not")
	}
}
