package prose_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/docs/prose"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/internal/scriptorium"
)

const (
	root   = "../../.."
	styles = "tools/vale/styles"
)

// TestProse holds the rules of tools/vale on all pages and help texts.
func TestProse(t *testing.T) {
	alerts := lint(t)
	for _, page := range slices.Sorted(maps.Keys(alerts)) {
		report(t, page, alerts[page])
	}
}

// TestRules runs the cases that each rule's file has.
func TestRules(t *testing.T) {
	out, err := command(t, needs.Program(t, "vale"), "test", styles).CombinedOutput()
	if err != nil {
		t.Errorf("vale test: %v\n%s", err, out)
	}
}

// TestRulesHaveCases demands text that each rule catches and text that it passes.
func TestRulesHaveCases(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, styles, "*/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no rules: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rule struct {
			Tests []struct {
				Want     *string
				Contains string
			}
		}
		if err := yaml.Unmarshal(text, &rule); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var catches, passes bool
		for _, c := range rule.Tests {
			catches = catches || c.Contains != "" || c.Want != nil && *c.Want != ""
			passes = passes || c.Want != nil && *c.Want == ""
		}
		if !catches || !passes {
			t.Errorf("%s: has a case that it catches: %t, and one that it passes: %t; it needs both", file, catches, passes)
		}
	}
}

// alert is one of Vale's, in its JSON output.
type alert struct {
	Line    int
	Span    []int
	Check   string
	Message string
	text    string // the line, for help texts: their pages are in no file
}

func report(t *testing.T, page string, alerts []alert) {
	t.Helper()
	for _, a := range alerts {
		t.Errorf("%s:%d:%d: %s (%s)%s", page, a.Line, a.Span[0], a.Message, a.Check, a.text)
	}
}

// lint returns what Vale finds in each page and help text.
func lint(t *testing.T) map[string][]alert {
	t.Helper()
	dir := t.TempDir()
	help := helpPages()
	args := []string{"--no-global", "--config=.vale.ini", "--output=JSON"}
	for _, name := range slices.Sorted(maps.Keys(help)) {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".md")
		if err := os.WriteFile(file, []byte(help[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := command(t, needs.Program(t, "vale"), append(args, pages(t)...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	// Vale exits with 1 when it has alerts, and with 2 when it fails.
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("vale: %v\n%s%s", err, out, &stderr)
	}
	found := map[string][]alert{}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("vale: %v in %s", err, out)
	}
	for name, text := range help {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".md")
		lines := strings.Split(text, "\n")
		for _, a := range found[file] {
			a.text = ": " + lines[a.Line-1]
			found[name+" --help"] = append(found[name+" --help"], a)
		}
		delete(found, file)
	}
	return found
}

// helpPages returns the help of every command by its path.
func helpPages() map[string]string {
	help := map[string]string{}
	for _, top := range []*cobra.Command{scriptctl.Command(), registryd.Command(), agentd.Command(), operatord.Command(), scriptorium.Command()} {
		maps.Copy(help, prose.Help(top, "registryd", "agentd"))
	}
	return help
}

// pages returns the tree's Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "bin" || path == "dist" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, ".md"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found %d pages: is the test in the right folder?", len(files))
	}
	return files
}

// command runs in the tree's root.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	return cmd
}
