package gateways_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// debianNode is where Debian has Node's packages.
const debianNode = "/usr/share/nodejs"

// TestRedisClients runs the programs of the page, which print what the page says.
func TestRedisClients(t *testing.T) {
	t.Parallel()
	needs.File(t, "/usr/lib/python3/dist-packages/redis", "python3-redis")
	needs.File(t, debianNode+"/redis", "node-redis")
	w := newWorld(t)
	text, err := os.ReadFile(pages + "redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		language, section, file, timeout, longer string
		command                                  []string
	}{
		{"python", "Python", "ask.py", "=0.5)", "=10)", []string{"/usr/bin/python3"}}, // Debian's, which has Debian's redis-py
		{"go", "Go", "ask.go", "500 * time.Millisecond", "10 * time.Second", []string{"go", "run"}},
		{"js", "Node", "ask.js", "500,", "10000,", []string{"node"}},
	} {
		t.Run(x.section, func(t *testing.T) {
			needs.Command(t, x.command[0], x.command[0])
			section, err := page.Section(string(text), x.section)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), x.file)
			program := strings.ReplaceAll(page.Blocks(section, x.language)[0], "/run/scriptorium", w.sockets)
			program = w.patient(program, x.timeout, x.longer)
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), x.command[0], append(x.command[1:], file)...)
			cmd.Env = append(os.Environ(), "NODE_PATH="+debianNode)
			out, err := cmd.CombinedOutput()
			if want := page.Blocks(section, "text")[0]; err != nil || string(out) != want {
				t.Errorf("%v\n%swant\n%s", err, out, want)
			}
		})
	}
}
