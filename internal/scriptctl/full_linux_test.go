package scriptctl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// TestOutputThatIsLost: a table that cannot be written is no success.
func TestOutputThatIsLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	dir := hostileFolder(t, map[string]any{"name": "a"})
	for _, format := range []string{"table", "json", "yaml", "junit", "tap"} {
		var problems strings.Builder
		code := scriptctl.Run(t.Context(), scriptctl.Streams{Out: full, Err: &problems}, []string{"test", dir, "-o", format})
		if code != 1 || strings.Count(problems.String(), "no space left") != 1 {
			t.Errorf("%s: exit code %d, %s", format, code, &problems)
		}
	}
}

// TestLostDifference: an output that is lost is an error, also for commands that end with 1 for a difference.
func TestLostDifference(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	p := person{t, startFleet(t, 0)}
	file := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(file, []byte(manifestA), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"diff", "-f", file}, {"apply", "-f", file, "--project", "p", "--dry-run"}} {
		var problems strings.Builder
		registry := []string{"--author", "ada", "--registry", "unix:" + filepath.Join(p.dir, "registry.sock")}
		code := scriptctl.Run(t.Context(), scriptctl.Streams{Out: full, Err: &problems}, append(args, registry...))
		if code != 2 || !strings.Contains(problems.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, &problems)
		}
		if out, code := p.run("", args...); code != 1 {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	out, code := p.run("n\n", "apply", "-f", file, "--project", "p")
	if code != 1 || !strings.Contains(out, "Carry out 1 change? The registry is unix:"+p.dir) || !strings.Contains(out, "the address is from --registry. [y/N]") {
		t.Errorf("exit code %d, %s", code, out)
	}
}
