package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"

	"github.com/scriptorium-dev/scriptorium/script"
)

// moduleFile is the file of an image that is a module: Istio and Envoy call it so.
const moduleFile = "plugin.wasm"

// Bounds of an image's layer.
const (
	maxTarFiles    = 64
	maxTarOverhead = 256 << 10 // of headers and of other files
)

// errUnpacked is of a layer that is too large when it is unpacked.
var errUnpacked = errors.New("too large")

// bounded fails instead of reading more than it has left: an end of file would pass for a short archive.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errUnpacked
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// moduleOf returns the only moduleFile of a layer.
func moduleOf(layer []byte, how packing) ([]byte, error) {
	var archive io.Reader = bytes.NewReader(layer)
	if how == gzipped {
		unzipped, err := gzip.NewReader(archive)
		if err != nil {
			return nil, unpackError(err)
		}
		archive = unzipped
	}
	files := tar.NewReader(&bounded{r: archive, left: script.MaxArtifactBytes + maxTarOverhead})
	var module []byte
	for n := 0; ; n++ {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unpackError(err)
		}
		if n == maxTarFiles {
			return nil, script.Errorf(script.Invalid, field, "the layer has more than %d files: it should have %s alone", maxTarFiles, moduleFile)
		}
		if path.Clean("/"+header.Name) != "/"+moduleFile || header.FileInfo().IsDir() {
			continue
		}
		if module != nil {
			return nil, script.Errorf(script.Invalid, field, "the layer has the file %s twice", moduleFile)
		}
		if module, err = readModule(header, files); err != nil {
			return nil, err
		}
	}
	if module == nil {
		return nil, script.Errorf(script.Invalid, field, "the layer has no file %s at its root: name the module so", moduleFile)
	}
	return module, nil
}

func readModule(header *tar.Header, file io.Reader) ([]byte, error) {
	if header.Typeflag != tar.TypeReg {
		return nil, script.Errorf(script.Invalid, field, "%s of the layer is a link or another special file: it has to be the module", moduleFile)
	}
	if header.Size < 1 || header.Size > script.MaxArtifactBytes { // also of the holes of a sparse file, which are not in the archive
		return nil, script.Errorf(script.Invalid, field, "%s of the layer has %d bytes: at least 1 and at most %d (4 MiB) are allowed", moduleFile, header.Size, script.MaxArtifactBytes)
	}
	module, err := io.ReadAll(io.LimitReader(file, script.MaxArtifactBytes))
	if err != nil {
		return nil, unpackError(err)
	}
	return module, nil
}

func unpackError(err error) error {
	if errors.Is(err, errUnpacked) {
		return script.Errorf(script.Invalid, field, "the layer has more than %d bytes when it is unpacked: it should have %s alone, of at most 4 MiB", script.MaxArtifactBytes+maxTarOverhead, moduleFile)
	}
	return script.Errorf(script.Invalid, field, "the layer is no tar archive, or a damaged one: %w", err)
}
