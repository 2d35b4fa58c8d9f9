package lua

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

	"github.com/google/uuid"
	glua "github.com/yuin/gopher-lua"
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

func cryptoFunctions() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"equal":  cryptoEqual,
		"hex":    cryptoHex,
		"hmac":   cryptoHMAC,
		"md5":    cryptoDigest(md5.New),
		"random": cryptoRandom,
		"sha1":   cryptoDigest(sha1.New),
		"sha256": cryptoDigest(sha256.New),
		"sha512": cryptoDigest(sha512.New),
		"unhex":  cryptoUnhex,
		"uuid":   cryptoUUID,
	}
}

// chargeDigest charges for n bytes that are digested.
func chargeDigest(l *glua.LState, n int) {
	m := meterOf(l)
	m.charge(l, digestCost+n/digestBytesPerInstruction)
	m.make(l, digestBytes)
}

// digest has h digest s.
func digest(l *glua.LState, h hash.Hash, s string) {
	for at := 0; at < len(s); {
		n := min(digestAtOnce, len(s)-at)
		meterOf(l).charge(l, n/digestBytesPerInstruction)
		h.Write(bytesOf(s[at : at+n]))
		at += n
	}
}

func cryptoDigest(algorithm func() hash.Hash) glua.LGFunction {
	return func(l *glua.LState) int {
		text := argString(l, 1)
		encode := argEncoding(l, 2)
		chargeDigest(l, 0)
		h := algorithm()
		digest(l, h, text)
		l.Push(glua.LString(encode(h.Sum(nil))))
		return 1
	}
}

func cryptoHMAC(l *glua.LState) int {
	key, text := argString(l, 2), argString(l, 3)
	encode := argEncoding(l, 4)
	var algorithm func() hash.Hash
	switch argString(l, 1) {
	case "sha256":
		algorithm = sha256.New
	case "sha512":
		algorithm = sha512.New
	case "sha1":
		algorithm = sha1.New
	case "md5":
		algorithm = md5.New
	default:
		argError(l, 1, "want sha256, sha512, sha1 or md5")
	}
	chargeDigest(l, 0)
	if h := algorithm(); len(key) > h.BlockSize() { // the digest stands for it: RFC 2104
		digest(l, h, key)
		key = string(h.Sum(nil))
	}
	mac := hmac.New(algorithm, []byte(key))
	digest(l, mac, text)
	l.Push(glua.LString(encode(mac.Sum(nil))))
	return 1
}

// argEncoding returns how the n-th argument says that bytes are written: "hex" unless
// it says so.
func argEncoding(l *glua.LState, n int) func([]byte) string {
	switch optString(l, n, "hex") {
	case "hex":
		return hex.EncodeToString
	case "base64":
		return base64.StdEncoding.EncodeToString
	case "base64url":
		return base64.RawURLEncoding.EncodeToString
	case "raw":
		return func(raw []byte) string { return string(raw) }
	}
	argError(l, n, "want hex, base64, base64url or raw")
	return nil
}

func cryptoRandom(l *glua.LState) int {
	n := argInt(l, 1)
	if n < 1 || n > maxRandomBytes {
		argError(l, 1, "want 1 to 1024 bytes")
	}
	encode := argEncoding(l, 2)
	chargeDigest(l, 4*n)
	meterOf(l).makeString(l, 2*n)
	raw := make([]byte, n)
	_, _ = randomBytes(l).Read(raw) // never fails: crypto/rand ends the process rather than that
	l.Push(glua.LString(encode(raw)))
	return 1
}

func cryptoUUID(l *glua.LState) int {
	chargeDigest(l, 0)
	var id uuid.UUID
	var err error
	switch optInt(l, 1, 4) {
	case 4:
		id, err = uuid.NewRandomFromReader(randomBytes(l))
	case 7:
		id, err = uuidV7(l)
	default:
		argError(l, 1, "want version 4 or 7")
	}
	if err != nil { // there is no randomness, which crypto/rand does not survive
		panic(err)
	}
	l.Push(glua.LString(id.String()))
	return 1
}

// uuidV7 returns one of the call's own time and randomness, if it has them.
func uuidV7(l *glua.LState) (uuid.UUID, error) {
	id, err := uuid.NewV7FromReader(randomBytes(l))
	if callOf(l).inv.Clock != nil {
		var ms [8]byte
		endian.BigEndian.PutUint64(ms[:], uint64(now(l).UnixMilli()))
		copy(id[:6], ms[2:])
		id[6], id[7] = 0x70, 0 // what is finer than a millisecond
	}
	return id, err
}

// randomBytes returns what the call's random bytes come from.
func randomBytes(l *glua.LState) io.Reader {
	if source := callOf(l).inv.Random; source != nil {
		return &sourceReader{source}
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

// cryptoEqual takes as long wherever the two differ.
func cryptoEqual(l *glua.LState) int {
	a, b := argString(l, 1), argString(l, 2)
	chargeDigest(l, 0)
	equal := 1
	if len(a) != len(b) {
		equal = 0
	}
	for n := min(len(a), len(b)); n > 0; n = min(len(a), len(b)) {
		n = min(n, digestAtOnce)
		meterOf(l).charge(l, 2*n/digestBytesPerInstruction)
		equal &= subtle.ConstantTimeCompare(bytesOf(a[:n]), bytesOf(b[:n]))
		a, b = a[n:], b[n:]
	}
	l.Push(glua.LBool(equal == 1))
	return 1
}

func cryptoHex(l *glua.LState) int {
	s, m := argString(l, 1), meterOf(l)
	buf := m.room(l, hex.EncodedLen(len(s)))
	for at := 0; at < len(s); {
		to := m.piece(l, at, len(s))
		hex.Encode(buf[2*at:], bytesOf(s[at:to]))
		at = to
	}
	l.Push(stringOf(buf))
	return 1
}

func cryptoUnhex(l *glua.LState) int {
	s, m := argString(l, 1), meterOf(l)
	buf := m.room(l, hex.DecodedLen(len(s)))
	for at := 0; at < len(s); {
		to := m.piece(l, at, len(s))
		if _, err := hex.Decode(buf[at/2:], bytesOf(s[at:to])); err != nil {
			return pushFailure(l, "not valid hexadecimal")
		}
		at = to
	}
	l.Push(stringOf(buf))
	return 1
}
