package project_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/project"
)

// TestPage: docs/linting-scripts.md has all rules.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/linting-scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, r := range lint.Rules {
		fmt.Fprintf(&rows, "| %s | `%s` | %s | %s |\n", r.Code, r.Name, new(project.Config).Level(r), r.Title)
	}
	if !strings.Contains(string(page), rows.String()) {
		t.Errorf("docs/linting-scripts.md does not have these rows:\n%s", rows.String())
	}
}
