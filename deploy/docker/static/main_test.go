package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program builds a program for the platform.
func program(t *testing.T, source string, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path+".go", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, path+".go")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestCheck(t *testing.T) {
	const plain = "package main\n\nfunc main() {}\n"
	static := program(t, plain, "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if err := check("linux/arm64", static); err != nil {
		t.Errorf("a static program: %v", err)
	}
	for platform, want := range map[string]string{"linux/amd64": "built for", "linux/s390x": "knows", "arm64": "knows"} {
		if err := check(platform, static); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", platform, err, want)
		}
	}
	if err := check("linux/arm64", "main.go"); err == nil {
		t.Error("took a text for a program")
	}
}

func TestCheckRefusesLibraries(t *testing.T) {
	linked := program(t, "package main\n\nimport \"C\"\n\nfunc main() {}\n", "CGO_ENABLED=1", "GOOS=linux")
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		if err := check(platform, linked); err == nil {
			t.Errorf("%s: took a program that needs libraries", platform)
		}
	}
}

// TestHas: a program has a file that it embeds, and not one that changed since.
func TestHas(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "page.gz")
	for name, content := range map[string]string{
		"go.mod":  "module example\n",
		"main.go": "package main\n\nimport \"embed\"\n\n//go:embed page.gz\nvar files embed.FS\n\nfunc main() { entries, _ := files.ReadDir(\".\"); println(len(entries)) }\n",
		"page.gz": "\x1f\x8b\x08 what a program embeds",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	path := filepath.Join(dir, "program")
	if err := has(path, file); err != nil {
		t.Error(err)
	}
	for _, content := range []string{"\x1f\x8b\x08 what no program embeds", ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := has(path, file); err == nil || !strings.Contains(err.Error(), "does not have") {
			t.Errorf("after a change to %q: %v", content, err)
		}
	}
}
