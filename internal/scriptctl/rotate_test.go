package scriptctl_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
)

// TestRotation goes through all steps of a rotation, with a registry and agents that
// run, and publishes at each.
func TestRotation(t *testing.T) {
	stack, dir := startStack(t, 2)
	p := person{t, dir}
	trusted, signing, next := filepath.Join(dir, "trusted.pem"), filepath.Join(dir, "signing.key"), filepath.Join(dir, "new.key")
	edition := func(n string) {
		t.Helper()
		if out, code := p.publish(strings.Replace(manifestA, "return 1", "return "+n, 1), "--wait"); code != 0 {
			t.Fatal(code, out)
		}
	}
	edition("1")
	old := p.keyID(signing)
	p.awaitDiskKeys(old)

	// The new key has to be trusted before it signs.
	if out := p.must("keys", "rotate", "--trusted", trusted, "--out", next); !strings.Contains(out, "scriptctl keys retire "+old+" --trusted "+trusted) {
		t.Error(out)
	}
	edition("2")
	if out, code := p.run("", "keys", "retire", old, "--trusted", trusted); code != 4 || !strings.Contains(out, "what it has signed is on the disk of agent-1, agent-2;") {
		t.Errorf("a key in use was retired: exit code %d, %s", code, out)
	}

	// The registry signs with it.
	data, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signing, data, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := func(part func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := part(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop(stack.StopRegistry)
	if err := stack.StartRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	edition("3")
	p.awaitDiskKeys(p.keyID(next))

	// The old one can go.
	p.must("keys", "retire", old, "--trusted", trusted)
	edition("4")
	for i := range 2 {
		stop(func(ctx context.Context) error { return stack.StopAgent(ctx, i+1) })
		if err := stack.StartAgent(i + 1); err != nil {
			t.Fatal(err)
		}
	}
	edition("5")
	if out := p.must("call", "term/a"); out != "5\n" {
		t.Errorf("term/a answers %s", out)
	}
}

func (p person) keyID(file string) string {
	p.t.Helper()
	id, _, _ := strings.Cut(p.must("keys", "id", file), " ")
	return id
}

// awaitDiskKeys waits until what all agents have on disk is signed by the one key.
func (p person) awaitDiskKeys(id string) {
	p.t.Helper()
	client, err := registryclient.Dial("unix:" + filepath.Join(p.dir, "registry.sock"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		done, agents := 0, 0
		var last []string
		for agent, err := range client.Agents(ctx, false) {
			if err != nil {
				p.t.Fatalf("agents still name %v, not %s alone: %v", last, id, err)
			}
			agents++
			if last = agent.DiskKeys; len(last) == 1 && last[0] == id {
				done++
			}
		}
		if agents > 0 && done == agents {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("agents still name %v, not %s alone", last, id)
		case <-ticker.C:
		}
	}
}
