package project_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/project"
)

func TestNearestFile(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(dir, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, project.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	level := func(code string) project.Level {
		t.Helper()
		c, err := project.Find(inner)
		if err != nil {
			t.Fatal(err)
		}
		return c.Level(lint.Find(code))
	}
	for code, want := range map[string]project.Level{"W001": project.Error, "W005": project.Warning, "W006": project.Off} {
		if got := level(code); got != want {
			t.Errorf("%s is %s without a file, want %s", code, got, want)
		}
	}
	write(dir, "lint:\n  rules:\n    W001: off\n    unused-parameter: error\n")
	if level("W001") != project.Off || level("W006") != project.Error || level("W005") != project.Warning {
		t.Error("the outer file does not count")
	}
	write(filepath.Dir(inner), "")
	if level("W001") != project.Error {
		t.Error("an empty file does not count")
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"lint:\n  rules:\n    W999: off\n":                       ":3:11: lint.rules.W999: there is no such rule",
		"lint:\n  rules:\n    W001: loud\n":                      `:3:11: lint.rules.W001: "loud" is no level`,
		"lint:\n  rules:\n    W001: [off]\n":                     ":3:11: lint.rules.W001: \"\" is no level",
		"lint:\n  rulez:\n    W001: off\n":                       "line 2: field rulez not found",
		"lint: [":                                                "did not find",
		"# " + strings.Repeat("x", manifest.MaxFileBytes) + "\n": "is larger than",
	} {
		if err := os.WriteFile(filepath.Join(dir, project.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := project.Find(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}
