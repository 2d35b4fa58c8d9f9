package script

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"unique"
)

// Bounds of the libraries of one version, those that libraries require included. A release has the
// libraries of its active version and of its candidate, and a publish stores them once more: all of
// it is one message of NATS, and one request to etcd.
const (
	MaxLibraries      = 16
	MaxLibrariesBytes = 128 << 10 // of all their sources together
	// MaxProgramBytes bounds the source of a script that has libraries, and theirs, together.
	MaxProgramBytes = 640 << 10
)

// Library is a library as a version has it: with the source that the library had when the version
// was published.
type Library struct {
	Name    Name // of the tenant of the version's script
	Version uint64
	Digest  Digest // of the source
	Source  string
}

// SameLibraries reports whether both have the same sources under the same names. The numbers of the
// versions do not count.
func SameLibraries(a, b []Library) bool {
	return slices.EqualFunc(a, b, func(l, m Library) bool { return l.Name == m.Name && l.Digest == m.Digest })
}

// DigestOfLibraries returns the SHA-256 of the names and of the digests of the sources, each name with
// its length before it, as 8 bytes, big endian; zero if there are none.
func DigestOfLibraries(libraries []Library) (d Digest) {
	if len(libraries) == 0 {
		return d
	}
	sum := sha256.New()
	for _, l := range libraries {
		name := l.Name.String()
		_ = binary.Write(sum, binary.BigEndian, uint64(len(name))) // to a hash
		sum.Write([]byte(name))
		sum.Write(l.Digest[:])
	}
	return Digest(sum.Sum(nil))
}

// SortLibraries brings them into the one order that versions have.
func SortLibraries(libraries []Library) {
	slices.SortFunc(libraries, func(a, b Library) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
}

// InternSource returns a text that shares its memory with equal ones: many scripts have one library.
func InternSource(source string) string { return unique.Make(source).Value() }

// CheckLibraries returns an Invalid error unless the libraries are such that a version of the script may have
// them: of its tenant, in order, within the bounds, and with the sources that their digests say.
func CheckLibraries(of Name, libraries []Library) error {
	const field = "libraries"
	if len(libraries) > MaxLibraries {
		return Errorf(Invalid, field, "%s has %d libraries, those that libraries require included: at most %d are allowed", of, len(libraries), MaxLibraries)
	}
	size := 0
	for i, l := range libraries {
		switch err := l.Name.Validate(); {
		case err != nil:
			return err
		case l.Name.Tenant != of.Tenant:
			return Errorf(Invalid, field, "%s has the library %s of another tenant: a script has libraries of its own tenant alone", of, l.Name)
		case l.Name == of:
			return Errorf(Invalid, field, "%s is its own library", of)
		case i > 0 && libraries[i-1].Name.String() >= l.Name.String():
			return Errorf(Invalid, field, "the libraries of %s are not sorted by their names, or %s is there twice", of, l.Name)
		case DigestOf([]byte(l.Source)) != l.Digest:
			return Errorf(Invalid, field, "the source of the library %s of %s is not what its digest says", l.Name, of)
		}
		size += len(l.Source)
	}
	if size > MaxLibrariesBytes {
		return Errorf(Invalid, field, "the libraries of %s have %d bytes of source together: at most %d (128 KiB) are allowed", of, size, MaxLibrariesBytes)
	}
	return nil
}

// CheckProgramSize returns an Invalid error if a source of so many bytes is too large for the libraries.
func CheckProgramSize(size int, libraries []Library) error {
	if len(libraries) == 0 {
		return nil
	}
	all := size
	for _, l := range libraries {
		all += len(l.Source)
	}
	if all > MaxProgramBytes {
		return Errorf(Invalid, "source", "has %d bytes together with its libraries: at most %d (640 KiB) are allowed; pass data as config or values", all, MaxProgramBytes)
	}
	return nil
}

// String returns "acme/lib v3".
func (l Library) String() string { return fmt.Sprintf("%s v%d", l.Name, l.Version) }

// IsLibrary is the error of a call of a library.
func IsLibrary(name Name) *Error {
	return Errorf(Invalid, "script", "%s is a library, which nobody calls: call a script that has require(%q)", name, name)
}

// CheckLibrary returns an Invalid error if the spec is one of a library and has what only scripts have that are
// called. prefix and entrypointField are how its fields are called.
func (s Spec) CheckLibrary(prefix, entrypointField, entrypoint string) error {
	const nobody = "a library has none, because nobody calls it: remove it, or "
	switch {
	case !s.Library:
		return nil
	case entrypoint != "":
		return Errorf(Invalid, entrypointField, "a library has none, because it is a chunk that returns a table: leave it out")
	case !s.Trigger.Equal(Trigger{}):
		return Errorf(Invalid, prefix+".trigger", nobody+"set it in the script that requires the library")
	case len(s.Tests) > 0:
		return Errorf(Invalid, prefix+".tests", nobody+"move the tests to a script that requires the library")
	}
	return nil
}
