// Package docs holds what can be held of the documentation by a test: that links
// lead somewhere, and that the commands it shows exist with the flags it gives
// them.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/internal/scriptorium"
)

const root = "../.."

// pages returns the text of every page of the documentation by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/README.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	if len(all) < 5 {
		t.Fatalf("found %d pages: is the test in the right folder?", len(all))
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for file, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s: %v", file, m[1], err)
				continue
			}
			if m[2] != "" && !slices.Contains(anchors(t, target), m[2]) {
				t.Errorf("%s: the link to %s#%s: there is no such heading", file, m[1], m[2])
			}
		}
	}
}

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors returns what GitHub calls the page's headings in links.
func anchors(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, title := range page.Headings(string(text)) {
		all = append(all, strings.ReplaceAll(strings.ToLower(noAnchor.ReplaceAllString(title, "")), " ", "-"))
	}
	return all
}

// shown matches a line that shows one of our commands, in a transcript ("$ …")
// or as a line of a block of its own.
var shown = regexp.MustCompile(`(?m)^(?:    |\t)*(?:\$ )?(?:bin/)?((?:scriptctl|agentd|registryd|scriptorium)(?: .*)?)$`)

func TestCommandsExist(t *testing.T) {
	seen := 0
	for file, text := range pages(t) {
		for _, m := range shown.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(m[1], " #")
			line, _, _ = strings.Cut(line, " |")
			if strings.HasSuffix(line, "{") {
				continue // the directive of a Caddyfile
			}
			seen++
			if err := check(strings.TrimSuffix(strings.TrimSpace(line), "\\")); err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("found %d commands in the documentation: does the pattern still match?", seen)
	}
}

// check reports whether the command line names a command of ours and gives it
// only flags that it has.
func check(line string) error {
	words := strings.Fields(line)
	commands := map[string]func() *cobra.Command{
		"scriptctl":   scriptctl.Command,
		"agentd":      agentd.Command,
		"registryd":   registryd.Command,
		"scriptorium": scriptorium.Command,
	}
	top := commands[words[0]]()
	var args []string
	for _, word := range words[1:] {
		args = append(args, strings.Trim(word, `'"`))
	}
	cmd, rest, err := top.Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("no command %q", rest[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	for _, word := range rest {
		name, ok := strings.CutPrefix(word, "--")
		if !ok || name == "" {
			continue
		}
		name, _, _ = strings.Cut(name, "=")
		if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("no flag --%s", name)
		}
	}
	return nil
}

// TestNoPageChangesTrackedFiles: what a page has people edit in place is a copy of theirs.
func TestNoPageChangesTrackedFiles(t *testing.T) {
	edit := regexp.MustCompile(`(?m)\bsed -i .*?' (\S+)`)
	seen := 0
	for file, text := range pages(t) {
		for _, m := range edit.FindAllStringSubmatch(text, -1) {
			seen++
			if path := filepath.Join(root, m[1]); !strings.HasPrefix(m[1], "my-scripts/") {
				if _, err := os.Stat(path); err == nil {
					t.Errorf("%s: %s changes a file of this tree", file, m[0])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no page edits a file: does the pattern still match?")
	}
}
