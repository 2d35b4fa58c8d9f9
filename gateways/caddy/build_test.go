package scriptorium_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// TestXcaddy builds Caddy as xcaddy does: a module of its own, which has a main package with
// imports alone. The docs show the command.
func TestXcaddy(t *testing.T) {
	needs.Time(t, "it links all of Caddy")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	main, err := os.ReadFile("cmd/caddy/main.go")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/scriptorium-dev/scriptorium"
	files := map[string][]byte{
		"main.go": main, "go.sum": sums,
		"go.mod": []byte(strings.Join([]string{
			"module caddy", "go 1.26.0",
			"require " + module + "/gateways/caddy v0.0.0",
			"replace " + module + "/gateways/caddy => " + here,
			"replace " + module + " => " + filepath.Join(here, "../.."),
		}, "\n")),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("go", "build", "-ldflags", "-s -w", "-o", "built", ".")
	if modules := run("./built", "list-modules"); !strings.Contains(modules, "http.handlers.scriptorium") {
		t.Errorf("Caddy has no module of ours:\n%s", modules)
	}
}
