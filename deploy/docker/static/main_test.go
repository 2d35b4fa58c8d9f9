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
