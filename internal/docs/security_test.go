package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fenced returns the fenced block of docs/security.md that begins with the text.
func fenced(t *testing.T, language, begin string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```" + language + "\n(" + regexp.QuoteMeta(begin) + ".*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/security.md has no block that begins with %s", begin)
	}
	return string(found[1])
}

// TestTheAccessPolicyCanBeUsed as it is shown.
func TestTheAccessPolicyCanBeUsed(t *testing.T) {
	p, err := access.Parse("docs/security.md", []byte(fenced(t, "yaml", "subjects:")))
	if err != nil {
		t.Fatal(err)
	}
	who, err := p.Identify(access.Credentials{Unix: true, UID: 990}, time.Now())
	if err != nil || who.Name != "local-admin" || who.CheckAll(access.Admin, script.Selector{}) != nil {
		t.Errorf("%+v, %v", who, err)
	}
}
