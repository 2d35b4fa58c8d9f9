package kube

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
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
	// Offline builds and loads what others publish, too: etcd, NATS and busybox, of
	// which a few commands do: $E2E_OFFLINE.
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
	root     bool      // it runs as root
}

// program is a package of the module in that folder, or, without one, a program of package toolcache.
type program struct{ name, pkg, module string }

var buildable = []image{
	{name: "registryd", programs: []program{{name: "registryd", pkg: "./cmd/registryd"}}},
	{name: "agentd", programs: []program{{name: "agentd", pkg: "./cmd/agentd"}, {name: "scriptctl", pkg: "./cmd/scriptctl"}}},
	{name: "operator", programs: []program{{name: "operator", pkg: "./cmd/operator"}}},
	{name: GatewayImage, programs: []program{{name: "gateway", pkg: "./e2e/gateway"}}},
	{name: CaddyImage, programs: []program{{name: "caddy", pkg: "./cmd/caddy", module: "gateways/caddy"}}},
	{name: "etcd", other: true, programs: []program{{name: "etcd"}}},
	{name: "nats", other: true, programs: []program{{name: "nats-server"}}},
	{name: PrometheusImage, other: true, programs: []program{{name: "prometheus"}}},
	{name: BusyboxImage, other: true, root: true, programs: []program{{name: "sleep", pkg: busybox}, {name: "ls", pkg: busybox}, {name: "rm", pkg: busybox}}},
}

const (
	// GatewayImage is the name of the gateway pods' image.
	GatewayImage = "e2e-gateway"
	// CaddyImage is that of a Caddy with our module.
	CaddyImage = "e2e-caddy"
	// PrometheusImage is that of what gates of rollouts ask.
	PrometheusImage = "prometheus"
	// BusyboxImage is that of the image in which pods look at a node's folders.
	BusyboxImage = "busybox"

	busybox = "./e2e/busybox"
)

// ref returns the full name of one of the images.
func (i Images) ref(name string) string { return i.Prefix + "/" + name + ":" + i.Tag }

// replaced reports whether an image is built here instead of pulled.
func (i Images) replaced(img image) bool { return !img.other || i.Offline }

// named returns the image that is built here for a manifest's image of that name.
func (i Images) named(ref string) (image, bool) {
	repository, _, _ := strings.Cut(ref, "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	n := slices.IndexFunc(buildable, func(img image) bool { return img.name == name && i.replaced(img) })
	if n < 0 {
		return image{}, false
	}
	return buildable[n], true
}

// imageField is a field of a manifest, also of one in braces.
var imageField = regexp.MustCompile(`(\bimage:[ \t]*["']?)([^\s"',{}]+)`)

// rewrite returns the manifests with our images.
func (i Images) rewrite(manifests string) string {
	return imageField.ReplaceAllStringFunc(manifests, func(field string) string {
		m := imageField.FindStringSubmatch(field)
		img, ok := i.named(m[2])
		if !ok {
			return field
		}
		return m[1] + i.ref(img.name)
	})
}

// Values returns the flags of helm with which the chart has our images.
func (i Images) Values() []string {
	values := []string{"--set-string=image.repository=" + i.Prefix, "--set-string=image.tag=" + i.Tag}
	if i.Offline {
		values = append(values, "--set=etcd.image="+i.ref("etcd"), "--set=nats.image="+i.ref("nats"))
	}
	return values
}

// LoadImages builds the images whose names are among wanted, all if there are none,
// and hands each to the hook. Without a hook it does nothing.
func (c *Cluster) LoadImages(ctx context.Context, images Images, wanted ...string) error {
	if images.Load == "" {
		return nil
	}
	for _, img := range buildable {
		if !images.replaced(img) || (len(wanted) > 0 && !slices.Contains(wanted, img.name)) {
			continue
		}
		if err := c.load(ctx, images, img, images.ref(img.name)); err != nil {
			return err
		}
	}
	return nil
}

// LoadNamed does the same for the images that the manifests name and that are built here.
// They get the names that they have there: nothing has to be said of them then to whoever
// applies the manifests.
func (c *Cluster) LoadNamed(ctx context.Context, images Images, manifests string) error {
	var refs []string
	for _, m := range imageField.FindAllStringSubmatch(manifests, -1) {
		refs = append(refs, m[2])
	}
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		img, ok := images.named(ref)
		if !ok || images.Load == "" {
			continue
		}
		if err := c.load(ctx, images, img, ref); err != nil {
			return err
		}
	}
	return nil
}

// load builds an image and hands it to the hook under the name. Its programs stay in
// dist/, where go sees the next time that they are what it would build.
func (c *Cluster) load(ctx context.Context, images Images, img image, ref string) error {
	c.say("building and loading %s", ref)
	dir := c.Path("dist", "e2e")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var binaries []string
	for _, p := range img.programs {
		binary, err := c.build(ctx, dir, p)
		if err != nil {
			return err
		}
		binaries = append(binaries, binary)
	}
	archive := filepath.Join(dir, img.name+".tar")
	defer func() { _ = os.Remove(archive) }()
	user := "65532:65532"
	if img.root {
		user = ""
	}
	if err := pack(archive, ref, user, binaries); err != nil {
		return err
	}
	if _, err := c.Shell(ctx, images.Load, "IMAGE="+ref, "ARCHIVE="+archive, "BINARIES="+strings.Join(binaries, " ")); err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	return nil
}

// build returns the path of the built program.
func (c *Cluster) build(ctx context.Context, dir string, p program) (string, error) {
	if p.pkg == "" {
		return toolcache.Get(ctx, io.Discard, p.name)
	}
	binary := filepath.Join(dir, p.name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, p.pkg)
	cmd.Dir = c.Path(p.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w: %s", p.pkg, err, out)
	}
	return binary, nil
}

// pack writes an image with the programs in /, as `docker save` would. They run as root
// if there is no user.
func pack(archive, ref, user string, binaries []string) error {
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
			"User":       user,
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
