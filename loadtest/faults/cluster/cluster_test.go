package cluster

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMatches(t *testing.T) {
	links := []string{
		"agent-1>nats-0", "agent-1>nats-2", "agent-1>registry", "agent-10>nats-0", "registry-1>etcd-0", "registry-1>nats-0",
		"nats-0>nats-1", "nats-1>nats-2", "writer-1>registry",
	}
	for seam, want := range map[string]string{
		"agent-1>nats":      "agent-1>nats-0 agent-1>nats-2",
		"agent-1>registry":  "agent-1>registry",
		"agent-1":           "agent-1>nats-0 agent-1>nats-2 agent-1>registry",
		"registry-1>etcd":   "registry-1>etcd-0",
		"nats-0":            "agent-1>nats-0 agent-10>nats-0 registry-1>nats-0 nats-0>nats-1",
		"nats-0>nats-1":     "nats-0>nats-1",
		"writer-1>registry": "writer-1>registry",
	} {
		var got []string
		for _, link := range links {
			if matches(link, seam, strings.Contains(seam, ">")) {
				got = append(got, link)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", seam, got, want)
		}
	}
}

func TestMember(t *testing.T) {
	for head, want := range map[string]string{
		"GET /raft HTTP/1.1\r\nHost: x\r\nX-Server-From: 8e9e05c5\r\n\r\n": "8e9e05c5",
		"POST /raft HTTP/1.1\r\nx-server-from: ab\r\n\r\nbody":             "ab",
		"GET /version HTTP/1.1\r\nHost: x\r\n\r\n":                         "nobody",
	} {
		if got, ok := member([]byte(head)); !ok || got != want {
			t.Errorf("%q: %q, %v", head, got, ok)
		}
	}
	if _, ok := member([]byte("GET /raft HTTP/1.1\r\nX-Server-From: 8e9")); ok {
		t.Error("half a head is enough")
	}
}

func TestTear(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	a := &Agent{StateDir: t.TempDir()}
	write := func() map[string]string {
		files := map[string]string{}
		for _, name := range []string{"cursor", "journal", "releases/t/x", "releases/t/y", "blobs/00/0", "lock"} {
			path := filepath.Join(a.StateDir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("the content of "+name), 0o600); err != nil {
				t.Fatal(err)
			}
			files[path] = "the content of " + name
		}
		return files
	}
	kinds := map[string]bool{}
	for range 100 {
		files := write()
		done, err := a.Tear(random)
		if err != nil || len(done) == 0 {
			t.Fatalf("%v, %v", done, err)
		}
		damaged := 0
		for path, content := range files {
			now, _ := os.ReadFile(path)
			if string(now) != content {
				damaged++
				if filepath.Base(path) == "lock" {
					t.Error("the lock was damaged")
				}
			}
		}
		if damaged == 0 && !slices.ContainsFunc(done, func(s string) bool { return strings.HasPrefix(s, "truncate") }) {
			t.Errorf("%v damaged nothing", done)
		}
		for _, d := range done {
			kinds[strings.Fields(d)[0]] = true
		}
	}
	if len(kinds) != 3 {
		t.Errorf("only %v", kinds)
	}
}

func TestProcess(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err) // every system that it runs on has it
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := NewProcess(dir, "sleeper", sleep, []string{"1000"}, nil)
	for range 2 {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		p.Pause()
		p.Resume()
		p.Pause()
		if !p.Running() {
			t.Fatal("it does not run")
		}
		p.Kill() // even while it is paused
		if p.Running() {
			t.Fatal("it runs on")
		}
	}
	if crashes := p.Crashes(); len(crashes) > 0 {
		t.Errorf("a kill counts as a crash: %+v", crashes)
	}
	p.args = []string{"nonsense"}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.Running() {
		<-tick.C
	}
	if crashes := p.Crashes(); len(crashes) != 1 || !strings.Contains(crashes[0].Log, "nonsense") {
		t.Errorf("a process that ends by itself: %+v", crashes)
	}
}

// TestOverlay: the overlay fits this version of Go.
func TestOverlay(t *testing.T) {
	goroot, err := output(t.Context(), "", "go", "env", "GOROOT")
	if err != nil {
		t.Fatal(err)
	}
	path, err := writeOverlay(t.TempDir(), goroot, "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "time.go") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestOwnerOf(t *testing.T) {
	dir, err := NewDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if pid, ok := ownerOf(filepath.Join(dir, "agent-0", "state")); !ok || pid != os.Getpid() {
		t.Errorf("%s is of %d, %v; this is %d", dir, pid, ok, os.Getpid())
	}
	for _, path := range []string{"/", "/tmp/x", "/tmp/faults-x-1", "/tmp/faults-4711", "/run/faults"} {
		if pid, ok := ownerOf(path); ok {
			t.Errorf("%s is of %d", path, pid)
		}
	}
}
