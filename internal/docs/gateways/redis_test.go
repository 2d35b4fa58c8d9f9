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

// TestRedisClients runs the programs of the page, which print what the page says.
func TestRedisClients(t *testing.T) {
	t.Parallel()
	needs.File(t, "/usr/lib/python3/dist-packages/redis", "python3-redis")
	w := newWorld(t)
	text, err := os.ReadFile(pages + "redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		language, section, file string
		command                 []string
	}{
		{"python", "Python", "ask.py", []string{"/usr/bin/python3"}}, // Debian's, which has Debian's redis-py
		{"go", "Go", "ask.go", []string{"go", "run"}},
	} {
		t.Run(x.section, func(t *testing.T) {
			needs.Command(t, x.command[0], x.command[0])
			section, err := page.Section(string(text), x.section)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), x.file)
			program := strings.ReplaceAll(page.Blocks(section, x.language)[0], "/run/scriptorium", w.sockets)
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(x.command[0], append(x.command[1:], file)...).CombinedOutput()
			if want := page.Blocks(section, "text")[0]; err != nil || string(out) != want {
				t.Errorf("%v\n%swant\n%s", err, out, want)
			}
		})
	}
}
