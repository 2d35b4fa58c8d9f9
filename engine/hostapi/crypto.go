package hostapi

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	endian "encoding/binary"
	"encoding/hex"
	"hash"
	"io"
	mathrand "math/rand/v2"
	"unsafe"

	"github.com/google/uuid"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// digestCost is what a digest costs besides its bytes.
	digestCost = 10
	// digestBytes are allocated for a digest besides what is digested.
	digestBytes = 1024
	// digestBytesPerInstruction is how many bytes are digested for one instruction.
	digestBytesPerInstruction = 16
	// digestAtOnce is how many bytes are digested before the call looks at its turn.
	digestAtOnce = 16 << 10
	// maxRandomBytes that one call returns.
	maxRandomBytes = 1024
)

// payDigest charges for a digest, besides what is digested.
func (c *Call) payDigest(more int) bool {
	return c.Pay(digestCost+more/digestBytesPerInstruction) && c.Make(digestBytes)
}

// digest has h digest s.
func (c *Call) digest(h hash.Hash, s string) bool {
	for at := 0; at < len(s); {
		n := min(digestAtOnce, len(s)-at)
		if !c.Pay(n / digestBytesPerInstruction) {
			return false
		}
		h.Write(bytesOf(s[at : at+n]))
		at += n
	}
	return true
}

// bytesOf returns what s consists of; nobody may change it.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// algorithm returns the digest with the name; nil if there is none.
func algorithm(name string) func() hash.Hash {
	switch name {
	case "sha256":
		return sha256.New
	case "sha512":
		return sha512.New
	case "sha1":
		return sha1.New
	case "md5":
		return md5.New
	}
	return nil
}

// encode writes bytes in the encoding.
func encode(raw []byte, encoding string) string {
	switch encoding {
	case "hex":
		return hex.EncodeToString(raw)
	case "base64":
		return base64.StdEncoding.EncodeToString(raw)
	case "base64url":
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return string(raw)
}

func checkEncoding(encoding string) *script.Error {
	switch encoding {
	case "hex", "base64", "base64url", "raw":
		return nil
	}
	return fault("encoding", "want hex, base64, base64url or raw")
}

// Digest returns the digest of text: sha256, sha512, sha1 or md5, in the encoding hex, base64, base64url or raw.
func (c *Call) Digest(name, text, encoding string) (string, *script.Error) {
	if err := checkEncoding(encoding); err != nil {
		return "", err
	}
	makeHash := algorithm(name)
	if makeHash == nil {
		return "", fault("algorithm", "want sha256, sha512, sha1 or md5")
	}
	if !c.payDigest(0) {
		return "", stopped()
	}
	h := makeHash()
	if !c.digest(h, text) {
		return "", stopped()
	}
	return encode(h.Sum(nil), encoding), nil
}

// HMAC is Digest with a key.
func (c *Call) HMAC(name, key, text, encoding string) (string, *script.Error) {
	if err := checkEncoding(encoding); err != nil {
		return "", err
	}
	makeHash := algorithm(name)
	if makeHash == nil {
		return "", fault("algorithm", "want sha256, sha512, sha1 or md5")
	}
	if !c.payDigest(0) {
		return "", stopped()
	}
	if h := makeHash(); len(key) > h.BlockSize() { // the digest stands for it: RFC 2104
		if !c.digest(h, key) {
			return "", stopped()
		}
		key = string(h.Sum(nil))
	}
	mac := hmac.New(makeHash, []byte(key))
	if !c.digest(mac, text) {
		return "", stopped()
	}
	return encode(mac.Sum(nil), encoding), nil
}

// RandomBytes returns 1 to 1,024 random bytes in the encoding.
func (c *Call) RandomBytes(n int, encoding string) (string, *script.Error) {
	if n < 1 || n > maxRandomBytes {
		return "", fault("n", "want 1 to 1024 bytes")
	}
	if err := checkEncoding(encoding); err != nil {
		return "", err
	}
	if !c.payDigest(4*n) || !c.Make(stringBytes+4*n) {
		return "", stopped()
	}
	raw := make([]byte, n)
	_, _ = c.random().Read(raw) // never fails: crypto/rand ends the process rather than that
	return encode(raw, encoding), nil
}

// UUID returns a UUID of version 4 or 7.
func (c *Call) UUID(version int) (string, *script.Error) {
	if !c.payDigest(0) {
		return "", stopped()
	}
	var id uuid.UUID
	var err error
	switch version {
	case 4:
		id, err = uuid.NewRandomFromReader(c.random())
	case 7:
		id, err = c.uuidV7()
	default:
		return "", fault("version", "want version 4 or 7")
	}
	if err != nil { // there is no randomness, which crypto/rand does not survive
		panic(err)
	}
	return id.String(), nil
}

// uuidV7 returns one of the call's own time and randomness, if it has them.
func (c *Call) uuidV7() (uuid.UUID, error) {
	id, err := uuid.NewV7FromReader(c.random())
	if c.Clock != nil {
		var ms [8]byte
		endian.BigEndian.PutUint64(ms[:], uint64(c.Now().UnixMilli()))
		copy(id[:6], ms[2:])
		id[6], id[7] = 0x70, 0 // what is finer than a millisecond
	}
	return id, err
}

// random returns what the call's random bytes come from.
func (c *Call) random() io.Reader {
	if c.Random != nil {
		return &sourceReader{c.Random}
	}
	return rand.Reader
}

// sourceReader reads the bytes of a source's numbers.
type sourceReader struct{ source mathrand.Source }

func (r *sourceReader) Read(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var number [8]byte
		endian.LittleEndian.PutUint64(number[:], r.source.Uint64())
		rest = rest[copy(rest, number[:]):]
	}
	return len(p), nil
}

// Equal reports whether a and b are the same. It takes as long wherever they differ.
func (c *Call) Equal(a, b string) (bool, *script.Error) {
	if !c.payDigest(0) {
		return false, stopped()
	}
	equal := 1
	if len(a) != len(b) {
		equal = 0
	}
	for n := min(len(a), len(b)); n > 0; n = min(len(a), len(b)) {
		n = min(n, digestAtOnce)
		if !c.Pay(2 * n / digestBytesPerInstruction) {
			return false, stopped()
		}
		equal &= subtle.ConstantTimeCompare(bytesOf(a[:n]), bytesOf(b[:n]))
		a, b = a[n:], b[n:]
	}
	return equal == 1, nil
}
