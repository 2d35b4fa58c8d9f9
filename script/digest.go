package script

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const digestPrefix = "sha256:"

// Digest is the SHA-256 of a version's source bytes. The zero Digest means none.
type Digest [sha256.Size]byte

// DigestOf returns the digest of source.
func DigestOf(source []byte) Digest { return sha256.Sum256(source) }

// ParseDigest parses "sha256:<64 lower-case hex digits>".
func ParseDigest(s string) (Digest, error) {
	var d Digest
	digits, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(d)) || strings.ToLower(digits) != digits {
		return Digest{}, Errorf(Invalid, "digest", "%s is not a digest: want sha256:<64 hex digits>", quote(s))
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return Digest{}, Errorf(Invalid, "digest", "%s is not a digest: %v", quote(s), err)
	}
	return d, nil
}

// IsZero reports whether d is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns "sha256:<hex>", or "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

// Short returns the first eight hex digits for a screen: "sha256:ab12cd34".
func (d Digest) Short() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:4])
}

// MarshalText writes the form of String.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the form of String; empty is the zero Digest.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
