package rego

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The bounds of a bundle.
const (
	maxBundleFiles = 500
	maxBundleBytes = 4 << 20 // unpacked, what is not read included
	maxDataNodes   = 100_000
)

// isBundle reports whether the source is gzipped.
func isBundle(code []byte) bool { return bytes.HasPrefix(code, []byte{0x1f, 0x8b}) }

// readBundle reads a bundle: its modules and its documents, data.json. It leaves other files out, and tests. A bundle needs no
// signature: the version has one.
func readBundle(src engine.Source) (sources, *script.Error) {
	s := sources{modules: map[string]*ast.Module{}, data: ast.NewObject()}
	unzipped, err := gzip.NewReader(bytes.NewReader(src.Code))
	if err != nil {
		return s, bundleError(err)
	}
	archive := tar.NewReader(&bounded{r: unzipped, left: maxBundleBytes})
	for files := 0; ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s, bundleError(err)
		}
		if files == maxBundleFiles {
			return s, script.Errorf(script.Limit, "source", "the bundle has more than %d files", maxBundleFiles)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return s, bundleError(err)
		}
		if err := s.add(strings.TrimPrefix(path.Clean("/"+header.Name), "/"), content, src.Runtime.Rego.V0); err != nil {
			return s, err
		}
	}
	if len(s.modules) == 0 {
		return s, script.Errorf(script.Script, "source", "the bundle has no policy: it needs a file whose name ends in .rego")
	}
	return s, nil
}

// bounded fails when more was read than there may be.
type bounded struct {
	r    io.Reader
	left int
}

var errBundleSize = errors.New("too large")

// Read is io.Reader's.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errBundleSize
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func bundleError(err error) *script.Error {
	if errors.Is(err, errBundleSize) {
		return script.Errorf(script.Limit, "source", "the bundle has more than %d bytes when it is unpacked", maxBundleBytes)
	}
	return script.Errorf(script.Invalid, "source", "the bundle cannot be read: %s", clip(err.Error()))
}

// add takes a file.
func (s *sources) add(name string, content []byte, v0 bool) *script.Error {
	switch {
	case strings.HasSuffix(name, testSuffix):
		return nil
	case strings.HasSuffix(name, ".rego"):
		if s.modules[name] != nil {
			return script.Errorf(script.Invalid, "source", "the bundle has the file %s twice", clip(name))
		}
		if s.bytes += len(content); s.bytes > maxPolicyBytes {
			return script.Errorf(script.Limit, "source", "the bundle has more than %d KiB of Rego in all its policies", maxPolicyBytes>>10)
		}
		m, err := parse(name, content, v0)
		if err != nil {
			return err
		}
		s.modules[name] = m
		return nil
	case path.Base(name) == "data.json":
		return s.addData(name, content)
	case name == ".manifest":
		return checkManifest(content, v0)
	}
	return nil
}

// checkManifest refuses a bundle for another version of Rego. Roots are not needed: there is one bundle.
func checkManifest(content []byte, v0 bool) *script.Error {
	var manifest struct {
		Version *int `json:"rego_version"`
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		return script.Errorf(script.Invalid, "source", "the bundle's .manifest is not JSON: %s", clip(err.Error()))
	}
	if manifest.Version != nil && (*manifest.Version == 0) != v0 {
		return script.Errorf(script.Script, "source", "the bundle is for version %d of Rego: set rego.v0 to %t", *manifest.Version, !v0)
	}
	return nil
}

// addData puts a document where its folder says.
func (s *sources) addData(name string, content []byte) *script.Error {
	v, err := decode(content, maxDataNodes)
	if err != nil {
		return script.Errorf(script.Invalid, "source", "%s: %w", clip(name), err)
	}
	folders := strings.Split(path.Dir(name), "/")
	if path.Dir(name) == "." {
		folders = nil
	}
	if len(folders) > maxDepth {
		return script.Errorf(script.Limit, "source", "%s is nested deeper than %d", clip(name), maxDepth)
	}
	for i := len(folders) - 1; i >= 0; i-- {
		v = ast.NewObject(item(folders[i], v))
	}
	o, ok := v.(ast.Object)
	if !ok {
		return script.Errorf(script.Invalid, "source", "%s is not a JSON object", clip(name))
	}
	for _, key := range o.Keys() {
		if own, _ := key.Value.(ast.String); ownDocument(string(own)) {
			return script.Errorf(script.Script, "source", "%s has the member %s: data.%[2]s is a document of the engine", clip(name), string(own))
		}
	}
	merged, ok := s.data.Merge(o)
	if !ok {
		return script.Errorf(script.Invalid, "source", "%s contradicts another data.json of the bundle", clip(name))
	}
	s.data = merged
	return nil
}
