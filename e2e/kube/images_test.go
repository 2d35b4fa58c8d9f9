package kube

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
)

func TestRewriteReplacesTheImagesThatAreBuiltHere(t *testing.T) {
	const manifest = `
      containers:
        - name: agent
          image: scriptorium/agentd:dev
          imagePullPolicy: IfNotPresent
        - image: "ghcr.io/someone/operator@sha256:abcd"
        - image: quay.io/coreos/etcd:v3.6.5
        - image: busybox
        - {name: flow, image: "scriptorium/registryd:dev", command: [sleep]}
`
	const ours = `
      containers:
        - name: agent
          image: mine/agentd:1
          imagePullPolicy: IfNotPresent
        - image: "mine/operator:1"
        - image: quay.io/coreos/etcd:v3.6.5
        - image: busybox
        - {name: flow, image: "mine/registryd:1", command: [sleep]}
`
	if got := (Images{Prefix: "mine", Tag: "1"}).rewrite(manifest); got != ours {
		t.Errorf("got %s", got)
	}
	offline := Images{Prefix: "mine", Tag: "1", Offline: true}
	if got := offline.rewrite("  image: quay.io/coreos/etcd:v3.6.5\n  image: busybox:1.37\n"); got != "  image: mine/etcd:1\n  image: mine/busybox:1\n" {
		t.Errorf("offline: got %s", got)
	}
}

func TestPackMakesWhatDockerSaves(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "agentd")
	if err := os.WriteFile(binary, []byte("a program"), 0o644); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "image.tar")
	if err := pack(archive, "mine/agentd:1", "65532:65532", []string{binary}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != "mine/agentd:1" || len(files[manifest[0].Layers[0]]) == 0 {
		t.Errorf("manifest %+v, files %d", manifest, len(files))
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		} `json:"config"`
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.Config.Entrypoint[0] != "/agentd" || config.Config.User != "65532:65532" {
		t.Errorf("config %+v", config)
	}
}

func TestProgramsOfImagesExist(t *testing.T) {
	for _, img := range buildable {
		for _, p := range img.programs {
			if p.pkg == "" {
				if !slices.Contains(toolcache.Names(), p.name) {
					t.Errorf("image %s: toolcache has no program %s", img.name, p.name)
				}
				continue
			}
			cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Name}}", p.pkg)
			cmd.Dir = filepath.Join("..", "..", p.module)
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != "main\n" {
				t.Errorf("image %s: go list %s: %v: %s", img.name, p.pkg, err, out)
			}
		}
	}
}
