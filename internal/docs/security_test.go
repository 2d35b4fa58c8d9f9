package docs_test

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
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

// TestTheCertificatesCanBeMade with the commands that are shown.
func TestTheCertificatesCanBeMade(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs the command openssl, which .ci/run installs")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", fenced(t, "sh", "openssl"))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"registry", "agent"} {
		m, err := tlsfiles.Load(tlsfiles.Files{
			CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"),
		}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.Server()
		if err != nil {
			t.Fatal(err)
		}
		leaf := c.Certificates[0].Leaf
		if leaf.Subject.CommonName != name || len(leaf.DNSNames) != 1 || !strings.HasSuffix(leaf.DNSNames[0], ".example.org") {
			t.Errorf("%s: %v, %v", name, leaf.Subject, leaf.DNSNames)
		}
	}
}
