package artifact

import (
	"context"
	"encoding/json"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Types of manifests.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// packing is how a layer holds a source.
type packing int

const (
	bare    packing = iota + 1 // it is the source
	tarred                     // a file of it is
	gzipped                    // a file of it is, once it is unzipped
)

// packings of layers, by their types, for each engine. A module of WebAssembly is a layer by itself (the artifact of the
// CNCF, and the one before it), or a file of an image that a container builder has made. A bundle of Rego is a layer.
func packings(engine string) map[string]packing {
	const (
		dockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip"
		gzipLayer   = ocispec.MediaTypeImageLayerGzip
	)
	if engine == script.EngineRego {
		return map[string]packing{gzipLayer: bare, dockerLayer: bare}
	}
	return map[string]packing{
		"application/wasm": bare,
		"application/vnd.module.wasm.content.layer.v1+wasm": bare,
		"application/vnd.wasm.content.layer.v1+wasm":        bare,
		ocispec.MediaTypeImageLayer:                         tarred,
		gzipLayer:                                           gzipped,
		dockerLayer:                                         gzipped,
	}
}

// layouts says for each engine what pull takes.
func layouts(engine string) string {
	if engine == script.EngineRego {
		return "one layer " + ocispec.MediaTypeImageLayerGzip + " that is the bundle"
	}
	return "one layer application/wasm, or one layer " + ocispec.MediaTypeImageLayerGzip + " with a file " + moduleFile
}

// pull returns the source that the repository's manifest names.
func pull(ctx context.Context, from *remote.Repository, engine string) ([]byte, error) {
	manifest, err := pullManifest(ctx, from)
	if err != nil {
		return nil, err
	}
	layer, how, err := choose(manifest, engine)
	if err != nil {
		return nil, err
	}
	body, err := from.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // only read
	text, err := content.ReadAll(body, layer)
	switch {
	case err != nil:
		return nil, err
	case script.IsText(engine, text):
		return nil, script.Errorf(script.Invalid, field, "the artifact's layer is not the gzip archive that it says it is")
	case how == bare:
		return text, nil
	}
	return moduleOf(text, how)
}

// pullManifest returns the manifest of an image, whose digest it has verified.
func pullManifest(ctx context.Context, from *remote.Repository) (ocispec.Manifest, error) {
	described, body, err := from.Manifests().FetchReference(ctx, from.Reference.Reference)
	if err != nil {
		return ocispec.Manifest{}, err
	}
	defer body.Close() //nolint:errcheck // only read
	if described.Size > maxManifestBytes {
		return ocispec.Manifest{}, script.Errorf(script.Invalid, field, "the manifest has %d bytes, at most %d are allowed", described.Size, maxManifestBytes)
	}
	text, err := content.ReadAll(body, described)
	if err != nil {
		return ocispec.Manifest{}, err
	}
	var manifest struct {
		ocispec.Manifest
		Manifests []json.RawMessage `json:"manifests"` // of an index
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return ocispec.Manifest{}, script.Errorf(script.Invalid, field, "the manifest is no JSON document of the OCI's format: %w", err)
	}
	kind := described.MediaType
	if manifest.MediaType != "" && manifest.MediaType != kind {
		return ocispec.Manifest{}, script.Errorf(script.Invalid, field, "the manifest says that it is a %.100q, and the OCI registry that it is a %.100q", manifest.MediaType, kind)
	}
	if kind == ocispec.MediaTypeImageIndex || kind == dockerList || len(manifest.Manifests) > 0 {
		return ocispec.Manifest{}, script.Errorf(script.Invalid, field, "the digest is of an index of %d manifests: use the digest of one of those, which docker buildx imagetools inspect or oras manifest fetch shows", len(manifest.Manifests))
	}
	if kind != ocispec.MediaTypeImageManifest && kind != dockerManifest {
		return ocispec.Manifest{}, script.Errorf(script.Invalid, field, "the digest is of a %.100q: it has to be of an image's manifest (%s)", kind, ocispec.MediaTypeImageManifest)
	}
	return manifest.Manifest, nil
}

// choose returns the layer that holds the source.
func choose(manifest ocispec.Manifest, engine string) (ocispec.Descriptor, packing, error) {
	var none ocispec.Descriptor
	refuse := func(format string, args ...any) (ocispec.Descriptor, packing, error) {
		return none, 0, script.Errorf(script.Invalid, field, format, args...)
	}
	if len(manifest.Layers) != 1 {
		return refuse("the artifact has %d layers: the runtime %s takes %s", len(manifest.Layers), engine, layouts(engine))
	}
	layer := manifest.Layers[0]
	kind, _, _ := strings.Cut(layer.MediaType, ";")
	how, ok := packings(engine)[kind]
	if !ok {
		return refuse("the artifact's layer is of the type %.100q: the runtime %s takes %s", layer.MediaType, engine, layouts(engine))
	}
	most := int64(script.MaxArtifactBytes)
	if how == tarred {
		most += maxTarOverhead
	}
	if layer.Size < 1 || layer.Size > most {
		return refuse("the artifact's layer has %d bytes: at least 1 and at most %d (4 MiB) are allowed", layer.Size, most)
	}
	// It becomes a part of a URL.
	if err := layer.Digest.Validate(); err != nil {
		return refuse("the manifest names its layer %.100q, which is no digest", layer.Digest)
	}
	return layer, how, nil
}
