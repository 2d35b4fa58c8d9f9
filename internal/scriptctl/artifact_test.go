package scriptctl_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/artifacttest"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
	"github.com/scriptorium-dev/scriptorium/script"
)

// shop is a fleet of one agent whose registry fetches from an OCI registry, and a person with a terminal.
type shop struct {
	*testing.T
	oci      *artifacttest.Registry
	registry string
	terminal bool
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, oci: artifacttest.Start(t)}
	dir, err := os.MkdirTemp("", "sc") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	allowed := registryd.Artifacts{Registries: []string{s.oci.Host}, PlainHTTP: true}
	stack, err := local.Start(t.Context(), dir, 1, slog.New(slog.DiscardHandler), local.WithArtifacts(allowed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	s.registry = stack.RegistryTarget()
	return s
}

// run runs scriptctl, and fails the test unless it exits with the code.
func (s *shop) run(code int, args ...string) string {
	s.Helper()
	var out bytes.Buffer
	streams := scriptctl.Streams{In: strings.NewReader(""), Out: &out, Err: &out, OutTerminal: s.terminal}
	if got := scriptctl.Run(s.Context(), streams, append(args, "--registry", s.registry, "--author", "ada")); got != code {
		s.Fatalf("scriptctl %s: exit code %d; want %d\n%s", strings.Join(args, " "), got, code, out.String())
	}
	return out.String()
}

// has fails the test unless the text has all the words.
func (s *shop) has(text string, words ...string) {
	s.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			s.Errorf("no %q in\n%s", w, text)
		}
	}
	if strings.ContainsAny(text, "\x1f\x00") {
		s.Errorf("a source that is not text is shown: %q", text)
	}
}

// bundle pushes a policy that decides n, and returns its reference and its bytes.
func (s *shop) bundle(n int) (reference string, bytes []byte) {
	s.Helper()
	policy := fmt.Sprintf("package acme.route\n\ndecision := %d\n", n)
	bytes = artifacttest.Gzip(s, artifacttest.Tar(s, artifacttest.File{Name: "route.rego", Content: []byte(policy)}))
	config := artifacttest.Blob{Type: "application/vnd.oci.image.config.v1+json", Content: []byte("{}")}
	return s.oci.Push(s, "acme/route", "latest", config, artifacttest.Blob{Type: "application/vnd.oci.image.layer.v1.tar+gzip", Content: bytes}), bytes
}

func (s *shop) manifest(reference string) string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "route.yaml")
	text := "apiVersion: scriptorium.dev/v1alpha1\nkind: Script\nmetadata: {name: route}\nspec:\n  tenantId: acme\n  runtime: rego\n  entrypoint: acme/route/decision\n  artifact: " + reference + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// TestArtifacts publishes what is in an OCI registry, and shows it without its bytes.
func TestArtifacts(t *testing.T) {
	s := openShop(t)
	first, content := s.bundle(1)
	second, _ := s.bundle(2) // the tag moves
	s.run(0, "publish", "-f", s.manifest(first))
	s.has(s.run(0, "publish", "-f", s.manifest(first)), "unchanged")
	s.run(0, "diff", "-f", s.manifest(first))
	s.has(s.run(1, "diff", "-f", s.manifest(second)), "artifact")
	s.run(0, "publish", "-f", s.manifest(second))

	digest := script.DigestOf(content).String()
	s.has(s.run(0, "get", "acme/route@1"), first, digest)
	s.has(s.run(0, "get", "acme/route@1", "-o", "json"), first, base64.StdEncoding.EncodeToString(content))
	s.has(s.run(0, "diff", "acme/route", "1", "2"), "Binary sources differ", digest, "-  \"artifact\": \""+first, "+  \"artifact\": \""+second)
	if got := s.run(0, "get", "acme/route@1", "--source"); got != string(content) {
		t.Errorf("the source has %d bytes; want the bundle's %d", len(got), len(content))
	}
	s.terminal = true
	s.has(s.run(2, "get", "acme/route@1", "--source"), "not text", "> FILE")

	absent, _, _ := strings.Cut(first, "@")
	s.has(s.run(4, "publish", "-f", s.manifest(absent+"@sha256:"+strings.Repeat("ab", 32))), "spec.artifact", "no such artifact")
	s.has(s.run(4, "publish", "-f", s.manifest(strings.Replace(first, s.oci.Host, "other.example", 1))), "--artifact-registries")
	s.oci.Stop()
	s.has(s.run(5, "publish", "-f", s.manifest(absent+"@sha256:"+strings.Repeat("cd", 32))), "try again")
}
