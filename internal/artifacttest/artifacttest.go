// Package artifacttest starts a real OCI registry, and pushes artifacts as the tools of others do.
package artifacttest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/bcrypt"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// Registry is a real one, on loopback and without TLS.
type Registry struct {
	Host string // and its port
	// User and Password have to be given to pull and push; "" asks for none.
	User, Password string

	stop func()
}

// Start starts a registry that anybody may use.
func Start(tb testing.TB) *Registry {
	tb.Helper()
	return start(tb, &Registry{})
}

// StartPrivate starts a registry that asks for a password.
func StartPrivate(tb testing.TB) *Registry {
	tb.Helper()
	return start(tb, &Registry{User: "builder", Password: "correct horse"})
}

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[0-9]+)`)

func start(tb testing.TB, r *Registry) *Registry {
	tb.Helper()
	program, dir := needs.Program(tb, "distribution"), tb.TempDir()
	config := fmt.Sprintf("version: 0.1\nlog: {level: info, formatter: text}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: '127.0.0.1:0'}\n", dir)
	if r.User != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(r.Password), bcrypt.MinCost)
		if err != nil {
			tb.Fatal(err)
		}
		users := filepath.Join(dir, "htpasswd")
		write(tb, users, r.User+":"+string(hash)+"\n")
		config += fmt.Sprintf("auth: {htpasswd: {realm: test, path: %q}}\n", users)
	}
	file := filepath.Join(dir, "config.yml")
	write(tb, file, config)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	cmd := exec.CommandContext(ctx, program, "serve", file)
	cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	out, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	_ = w.Close()
	r.stop = sync.OnceFunc(func() { cancel(); _ = cmd.Wait(); _ = out.Close() })
	tb.Cleanup(r.stop)
	host := make(chan string, 1)
	go watch(out, host)
	select {
	case r.Host = <-host:
		if r.Host == "" {
			tb.Fatal("the OCI registry ended before it listened")
		}
	case <-time.After(time.Minute):
		tb.Fatal("the OCI registry does not listen after a minute")
	}
	return r
}

// watch sends the address that the registry listens on; "" if it ends before.
func watch(out io.Reader, host chan<- string) {
	defer close(host)
	sent := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && !sent {
			host <- m[1]
			sent = true
		}
	}
}

// Stop ends the registry.
func (r *Registry) Stop() { r.stop() }

func write(tb testing.TB, file, text string) {
	tb.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Blob is a layer or a config.
type Blob struct {
	Type    string
	Content []byte
}

// Push pushes an image of the config and the layers as repository:tag, and returns the reference with its digest.
func (r *Registry) Push(tb testing.TB, repository, tag string, config Blob, layers ...Blob) string {
	tb.Helper()
	to := r.repository(repository)
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: push(tb, to, config)}
	for _, layer := range layers {
		manifest.Layers = append(manifest.Layers, push(tb, to, layer))
	}
	return r.pushManifest(tb, to, tag, manifest.MediaType, manifest)
}

// PushIndex pushes an index without manifests, and returns its reference.
func (r *Registry) PushIndex(tb testing.TB, repository, tag string) string {
	tb.Helper()
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	return r.pushManifest(tb, r.repository(repository), tag, index.MediaType, index)
}

func (r *Registry) repository(name string) *remote.Repository {
	client := &auth.Client{Credential: auth.StaticCredential(r.Host, auth.Credential{Username: r.User, Password: r.Password})}
	return &remote.Repository{Client: client, PlainHTTP: true, Reference: registry.Reference{Registry: r.Host, Repository: name}}
}

func (r *Registry) pushManifest(tb testing.TB, to *remote.Repository, tag, kind string, manifest any) string {
	tb.Helper()
	text, err := json.Marshal(manifest)
	if err != nil {
		tb.Fatal(err)
	}
	described := content.NewDescriptorFromBytes(kind, text)
	if err := to.PushReference(tb.Context(), described, bytes.NewReader(text), tag); err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf("oci://%s/%s:%s@%s", r.Host, to.Reference.Repository, tag, described.Digest)
}

func push(tb testing.TB, to *remote.Repository, b Blob) ocispec.Descriptor {
	tb.Helper()
	described := content.NewDescriptorFromBytes(b.Type, b.Content)
	if err := to.Blobs().Push(tb.Context(), described, bytes.NewReader(b.Content)); err != nil {
		tb.Fatal(err)
	}
	return described
}

// File of an archive.
type File struct {
	Name    string
	Content []byte
	Type    byte // tar.TypeReg if 0
}

// Tar returns an archive of the files.
func Tar(tb testing.TB, files ...File) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.Name, Typeflag: f.Type, Mode: 0o644, Size: int64(len(f.Content))}
		if f.Type == tar.TypeSymlink {
			header.Linkname = "/etc/passwd"
		}
		if err := w.WriteHeader(header); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(f.Content); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// Gzip returns the text, zipped.
func Gzip(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}
