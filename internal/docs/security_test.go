package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
	p, err := access.Parse("docs/security.md", []byte(fenced(t, "yaml", "subjects:")), nil)
	if err != nil {
		t.Fatal(err)
	}
	who, err := p.Identify(access.Credentials{Unix: true, UID: 990}, time.Now())
	if err != nil || who.Name != "local-admin" || who.CheckAll(access.Admin, script.Selector{}) != nil {
		t.Errorf("%+v, %v", who, err)
	}
}

// TestTheIssuersCanBeUsed as they are shown, and a token that expires.
func TestTheIssuersCanBeUsed(t *testing.T) {
	p, err := access.Parse("docs/security.md", []byte(fenced(t, "yaml", "issuers:")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if issuers := p.Issuers(); len(issuers) != 2 || issuers[1].TokenFile == "" {
		t.Errorf("%+v", issuers)
	}
	tokens := strings.ReplaceAll(fenced(t, "yaml", "tokens:"), "\n", "\n    ")
	p, err = access.Parse("docs/security.md", []byte("subjects:\n  - name: ci\n    grants: [{roles: [read], tenants: [a]}]\n    "+tokens), nil)
	if err != nil {
		t.Fatal(err)
	}
	if all := p.Expiries(); len(all) != 1 {
		t.Errorf("%v", all)
	}
}
