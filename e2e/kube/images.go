package kube

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Images are those that the tests run. They come from the environment.
type Images struct {
	Prefix string // of their names, before "/agentd" and so on: $E2E_IMAGE_PREFIX, or "scriptorium"
	Tag    string // $E2E_IMAGE_TAG, or "e2e"
	// Load is a shell command that puts an image into the cluster: $E2E_LOAD_IMAGE. It
	// finds in IMAGE the image's name, in ARCHIVE a file of it as `docker save` makes,
	// and in BINARIES the programs in it, the first its entry point. If it is empty,
	// the cluster is taken to have the images, or to know where to get them.
	Load string
	// Offline builds and loads the images of etcd and NATS, too: $E2E_OFFLINE.
	Offline bool
}

// ImagesFromEnvironment returns what the environment says.
func ImagesFromEnvironment() Images {
	or := func(name, otherwise string) string {
		if value := os.Getenv(name); value != "" {
			return value
		}
		return otherwise
	}
	return Images{
		Prefix:  or("E2E_IMAGE_PREFIX", "scriptorium"),
		Tag:     or("E2E_IMAGE_TAG", "e2e"),
		Load:    os.Getenv("E2E_LOAD_IMAGE"),
		Offline: os.Getenv("E2E_OFFLINE") != "",
	}
}

// image is one that can be built here.
type image struct {
	name     string
	programs []program // the first is the entry point
	other    bool      // somebody else publishes it
}

type program struct{ name, module, pkg string }

var buildable = []image{
	{name: "registryd", programs: []program{{"registryd", ".", "./cmd/registryd"}}},
	{name: "agentd", programs: []program{{"agentd", ".", "./cmd/agentd"}, {"scriptctl", ".", "./cmd/scriptctl"}}},
	{name: "operator", programs: []program{{"operator", ".", "./cmd/operator"}}},
	{name: GatewayImage, programs: []program{{"gateway", ".", "./e2e/gateway"}}},
	{name: "etcd", other: true, programs: []program{{"etcd", "tools", "go.etcd.io/etcd/server/v3"}}},
	{name: "nats", other: true, programs: []program{{"nats-server", "tools", "github.com/nats-io/nats-server/v2"}}},
}

// GatewayImage is the name of the gateway pods' image.
const GatewayImage = "e2e-gateway"

// ref returns the full name of one of the images.
func (i Images) ref(name string) string { return i.Prefix + "/" + name + ":" + i.Tag }

// replaced reports whether a manifest's image of that name is ours instead.
func (i Images) replaced(name string) bool {
	return slices.ContainsFunc(buildable, func(b image) bool { return b.name == name && (!b.other || i.Offline) })
}

var imageLine = regexp.MustCompile(`(?m)^([ \t-]*image:[ \t]*)["']?([^\s"']+)["']?[ \t]*$`)

// rewrite returns the manifests with our images.
func (i Images) rewrite(manifests string) string {
	return imageLine.ReplaceAllStringFunc(manifests, func(line string) string {
		m := imageLine.FindStringSubmatch(line)
		repository, _, _ := strings.Cut(m[2], "@")
		name, _, _ := strings.Cut(path.Base(repository), ":")
		if !i.replaced(name) {
			return line
		}
		return m[1] + i.ref(name)
	})
}

// LoadImages builds the images whose names are among wanted, all if there are none,
// and hands each to the hook. Without a hook it does nothing.
func (c *Cluster) LoadImages(ctx context.Context, images Images, wanted ...string) error {
	if images.Load == "" {
		return nil
	}
	dir, err := os.MkdirTemp("", "scriptorium-e2e")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, img := range buildable {
		if !images.replaced(img.name) || (len(wanted) > 0 && !slices.Contains(wanted, img.name)) {
			continue
		}
		c.say("building and loading %s", images.ref(img.name))
		if err := c.load(ctx, dir, images, img); err != nil {
			return fmt.Errorf("image %s: %w", img.name, err)
		}
	}
	return nil
}

func (c *Cluster) load(ctx context.Context, dir string, images Images, img image) error {
	var binaries []string
	for _, p := range img.programs {
		binary := filepath.Join(dir, p.name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, p.pkg)
		cmd.Dir = c.Path(p.module)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w: %s", p.pkg, err, out)
		}
		binaries = append(binaries, binary)
	}
	archive := filepath.Join(dir, img.name+".tar")
	ref := images.ref(img.name)
	if err := pack(archive, ref, binaries); err != nil {
		return err
	}
	return c.Hook(ctx, images.Load, "IMAGE="+ref, "ARCHIVE="+archive, "BINARIES="+strings.Join(binaries, " "))
}

// pack writes an image with the programs in /, as `docker save` would.
func pack(archive, ref string, binaries []string) error {
	layer, err := tarOf(binaries)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": []string{"/" + filepath.Base(binaries[0])},
			"Env":        []string{"PATH=/"},
			"User":       "65532:65532",
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{ref}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", layer}} {
		if err := addFile(w, file.name, 0o644, file.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

func tarOf(binaries []string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, binary := range binaries {
		content, err := os.ReadFile(binary)
		if err != nil {
			return nil, err
		}
		if err := addFile(w, filepath.Base(binary), 0o755, content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func addFile(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
