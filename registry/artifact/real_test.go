package artifact_test

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/artifacttest"
	"github.com/scriptorium-dev/scriptorium/registry/artifact"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	module     = []byte("\x00asm\x01\x00\x00\x00")
	wasmConfig = artifacttest.Blob{Type: "application/vnd.wasm.config.v0+json", Content: []byte(`{"architecture":"wasm","os":"wasip1","layerDigests":[]}`)}
	imgConfig  = artifacttest.Blob{Type: "application/vnd.oci.image.config.v1+json", Content: []byte(`{"architecture":"wasm","os":"wasip1","rootfs":{"type":"layers","diff_ids":[]}}`)}
)

const (
	wasmLayer = "application/wasm"
	gzipLayer = "application/vnd.oci.image.layer.v1.tar+gzip"
	tarLayer  = "application/vnd.oci.image.layer.v1.tar"
)

func fetcher(t *testing.T, cfg artifact.Config) *artifact.Fetcher {
	t.Helper()
	f, err := artifact.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// refused fails the test unless the error is of the kind and the field, and has the words.
func refused(t *testing.T, err error, kind script.Kind, words string) {
	t.Helper()
	e := script.AsError(err)
	if e == nil {
		t.Fatalf("it was fetched; want %s: %s", kind, words)
	}
	if e.Kind != kind || e.Field != "settings.artifact" || !strings.Contains(e.Message, words) {
		t.Errorf("%s %v; want %s of settings.artifact with %q", e.Kind, e, kind, words)
	}
}

// TestLayouts fetches what the tools of others push to a real registry.
func TestLayouts(t *testing.T) {
	r := artifacttest.Start(t)
	f := fetcher(t, artifact.Config{Registries: []string{r.Host}, PlainHTTP: true})
	image := func(files ...artifacttest.File) []byte { return artifacttest.Tar(t, files...) }
	plugin := artifacttest.File{Name: "plugin.wasm", Content: module}
	bundle := artifacttest.Gzip(t, image(artifacttest.File{Name: "p.rego", Content: []byte("package p")}))
	large := bytes.Repeat([]byte{0}, script.MaxArtifactBytes+1)
	for name, c := range map[string]struct {
		engine string
		config artifacttest.Blob
		layers []artifacttest.Blob
		want   []byte
		words  string // of the refusal
	}{
		"cncf":          {"wasm", wasmConfig, []artifacttest.Blob{{Type: wasmLayer, Content: module}}, module, ""},
		"older":         {"wasm", imgConfig, []artifacttest.Blob{{Type: "application/vnd.module.wasm.content.layer.v1+wasm", Content: module}}, module, ""},
		"compat":        {"wasm", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: artifacttest.Gzip(t, image(plugin))}}, module, ""},
		"dot":           {"wasm", imgConfig, []artifacttest.Blob{{Type: tarLayer, Content: image(artifacttest.File{Name: "./plugin.wasm", Content: module})}}, module, ""},
		"rego":          {"rego", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: bundle}}, bundle, ""},
		"rego-wasm":     {"rego", imgConfig, []artifacttest.Blob{{Type: wasmLayer, Content: module}}, nil, "one layer " + gzipLayer},
		"rego-text":     {"rego", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: []byte("package p")}}, nil, "not the gzip archive"},
		"two-layers":    {"wasm", imgConfig, []artifacttest.Blob{{Type: wasmLayer, Content: module}, {Type: gzipLayer, Content: bundle}}, nil, "has 2 layers"},
		"zstd":          {"wasm", imgConfig, []artifacttest.Blob{{Type: tarLayer + "+zstd", Content: module}}, nil, "is of the type"},
		"no-plugin":     {"wasm", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: bundle}}, nil, "no file plugin.wasm"},
		"twice":         {"wasm", imgConfig, []artifacttest.Blob{{Type: tarLayer, Content: image(plugin, plugin)}}, nil, "twice"},
		"link":          {"wasm", imgConfig, []artifacttest.Blob{{Type: tarLayer, Content: image(artifacttest.File{Name: "plugin.wasm", Type: tar.TypeSymlink})}}, nil, "special file"},
		"no-archive":    {"wasm", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: module}}, nil, "no tar archive"},
		"large":         {"wasm", wasmConfig, []artifacttest.Blob{{Type: wasmLayer, Content: large}}, nil, "4 MiB"},
		"bomb":          {"wasm", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: artifacttest.Gzip(t, image(artifacttest.File{Name: "zeros", Content: append(large, large...)}, plugin))}}, nil, "when it is unpacked"},
		"large-plugin":  {"wasm", imgConfig, []artifacttest.Blob{{Type: gzipLayer, Content: artifacttest.Gzip(t, image(artifacttest.File{Name: "plugin.wasm", Content: large}))}}, nil, "4 MiB"},
		"truncated-tar": {"wasm", imgConfig, []artifacttest.Blob{{Type: tarLayer, Content: image(plugin)[:514]}}, nil, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			reference := r.Push(t, "acme/"+name, "v1", c.config, c.layers...)
			got, err := f.Fetch(t.Context(), reference, c.engine)
			if c.words != "" {
				refused(t, err, script.Invalid, c.words)
				return
			}
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%d bytes, %v; want %d bytes", len(got), err, len(c.want))
			}
		})
	}
	t.Run("index", func(t *testing.T) {
		_, err := f.Fetch(t.Context(), r.PushIndex(t, "acme/index", "v1"), "wasm")
		refused(t, err, script.Invalid, "digest is of an index")
	})
}

// TestDigests: a digest names one content, wherever the tag goes.
func TestDigests(t *testing.T) {
	r := artifacttest.Start(t)
	f := fetcher(t, artifact.Config{Registries: []string{r.Host}, PlainHTTP: true})
	first := r.Push(t, "acme/route", "v1", wasmConfig, artifacttest.Blob{Type: wasmLayer, Content: module})
	second := r.Push(t, "acme/route", "v1", wasmConfig, artifacttest.Blob{Type: wasmLayer, Content: append(module, "\x00\x05\x04name"...)})
	if first == second {
		t.Fatal("the tag did not move")
	}
	if got, err := f.Fetch(t.Context(), first, "wasm"); err != nil || !bytes.Equal(got, module) {
		t.Errorf("%q, %v; want what the tag named first", got, err)
	}
	name, _, _ := strings.Cut(first, "@")
	_, err := f.Fetch(t.Context(), name+"@sha256:"+strings.Repeat("ab", 32), "wasm")
	refused(t, err, script.Invalid, "has no such artifact")

	r.Stop()
	if _, err := f.Fetch(t.Context(), first, "wasm"); err != nil {
		t.Errorf("%v: what was fetched a moment ago is fetched again", err)
	}
	_, err = f.Fetch(t.Context(), second, "wasm")
	refused(t, err, script.Unavailable, "cannot be reached")
}

// TestCredentials: a private registry gets the password of its own, from the file as it is at that time.
func TestCredentials(t *testing.T) {
	r := artifacttest.StartPrivate(t)
	reference := r.Push(t, "acme/route", "v1", wasmConfig, artifacttest.Blob{Type: wasmLayer, Content: module})
	config := `{"credsStore": "no-such-program"}`
	f := fetcher(t, artifact.Config{Registries: []string{r.Host}, PlainHTTP: true, Credentials: func() ([]byte, error) { return []byte(config), nil }})
	login := func(host, password string) string {
		return fmt.Sprintf(`{"auths": {%q: {"auth": %q}}, "credHelpers": {%[1]q: "no-such-program"}}`, host, base64.StdEncoding.EncodeToString([]byte(r.User+":"+password)))
	}
	for _, wrong := range []string{config, login("other.example", r.Password), login(r.Host, "wrong")} {
		config = wrong
		_, err := f.Fetch(t.Context(), reference, "wasm")
		refused(t, err, script.Invalid, "--artifact-registry-credentials")
	}
	config = "auths:"
	_, err := f.Fetch(t.Context(), reference, "wasm")
	refused(t, err, script.Unavailable, "its operator has to correct it")
	config = login(r.Host, r.Password)
	if got, err := f.Fetch(t.Context(), reference, "wasm"); err != nil || !bytes.Equal(got, module) {
		t.Errorf("%q, %v; want the module", got, err)
	}
}
