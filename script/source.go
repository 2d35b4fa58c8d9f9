package script

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxArtifactBytes is the largest source that is no text: a WebAssembly module or a bundle of policies.
const MaxArtifactBytes = 4 << 20

// The first bytes of sources that are no text.
const (
	wasmMagic = "\x00asm"
	gzipMagic = "\x1f\x8b"
)

// IsText reports whether people read the source: it is neither a WebAssembly module nor a bundle.
func IsText(engine string, source []byte) bool {
	return engine != EngineWasm && (engine != EngineRego || !bytes.HasPrefix(source, []byte(gzipMagic)))
}

// MaxSource returns the size of the largest source of that kind that a registry stores, whatever the limits.
func MaxSource(engine string, source []byte) int {
	if IsText(engine, source) {
		return MaxSourceBytes
	}
	return MaxArtifactBytes
}

// SourceLimit returns how large the source may be. limits.sourceBytes is for what people write: unless it is set, what
// a compiler makes may be as large as a registry stores.
func (l Limits) SourceLimit(engine string, source []byte) int {
	most := MaxSource(engine, source)
	switch {
	case l.SourceBytes != 0:
		return min(l.SourceBytes, most)
	case most == MaxSourceBytes:
		return DefaultLimits().SourceBytes
	}
	return most
}

// CheckSource returns an Invalid error if the source cannot be one of the engine, with its place where that is known.
// It does not look at limits.
func CheckSource(engine string, source []byte) error {
	const field = "source"
	if engine == EngineWasm {
		if !bytes.HasPrefix(source, []byte(wasmMagic)) {
			return Errorf(Invalid, field, `is not a WebAssembly module: it must begin with \0asm. Compile the source first`)
		}
		return nil
	}
	if !IsText(engine, source) {
		return nil
	}
	if len(bytes.TrimSpace(source)) == 0 {
		return Errorf(Invalid, field, "is empty: a script has at least one statement")
	}
	if bytes.HasPrefix(source, []byte(wasmMagic)) {
		return Errorf(Invalid, field, "is a WebAssembly module, and the runtime is %s: set spec.runtime to %s", engine, EngineWasm)
	}
	if nul := bytes.IndexByte(source, 0); nul >= 0 {
		return atOffset(Errorf(Invalid, field, "a NUL byte: a script is text"), source, nul)
	}
	if at := firstInvalid(source); at < len(source) {
		return atOffset(Errorf(Invalid, field, "not valid UTF-8: save it as UTF-8"), source, at)
	}
	return nil
}

// firstInvalid returns where the first byte is that is not UTF-8; the length of text if there is none.
func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

func atOffset(e *Error, text []byte, offset int) *Error {
	before := text[:offset]
	e.Line, e.Column = bytes.Count(before, []byte("\n"))+1, offset-bytes.LastIndexByte(before, '\n')
	return e
}

// CheckEntrypoint returns an Invalid error unless the engine can have an entrypoint of that name.
func CheckEntrypoint(engine, name string) error {
	const field = "entrypoint"
	if len(name) > MaxEntrypointBytes {
		return Errorf(Invalid, field, "has %d bytes, at most %d are allowed", len(name), MaxEntrypointBytes)
	}
	switch {
	case engine == EngineRego && strings.ContainsFunc(name, func(c rune) bool { return !isWord(c) && c != '/' && c != '.' }):
		return Errorf(Invalid, field, "%q is not the path of a rule, such as acme/route/decision", name)
	case engine == EngineRego:
		return nil
	case engine == EngineWasm && name == "":
		return Errorf(Invalid, field, "is empty: name the function that the module exports, or leave it out for handle")
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !isWord(c) }) || name != "" && name[0] >= '0' && name[0] <= '9' {
		return Errorf(Invalid, field, `%.80q is not the name of a function; leave it out for handle, or "" to run the chunk itself`, name)
	}
	return nil
}

func isWord(c rune) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// MaxArtifactReference is the longest reference to an artifact.
const MaxArtifactReference = 512

// artifactReference is a host, a repository, perhaps a tag, and a digest.
var artifactReference = regexp.MustCompile(`^oci://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}$`)

// CheckArtifact returns an Invalid error unless the text is a reference to an artifact in an OCI registry, by digest.
func CheckArtifact(field, reference string) error {
	switch {
	case len(reference) > MaxArtifactReference:
		return Errorf(Invalid, field, "has %d bytes, at most %d are allowed", len(reference), MaxArtifactReference)
	case artifactReference.MatchString(reference):
		return nil
	case strings.HasPrefix(reference, "oci://") && !strings.Contains(reference, "@"):
		return Errorf(Invalid, field, "%.200q has no digest: add @sha256:… of the image's manifest, so that it names one content for ever", reference)
	}
	return Errorf(Invalid, field, "%.200q is not a reference such as oci://registry.example/team/route:v3@sha256:…", reference)
}
