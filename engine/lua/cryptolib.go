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
	"encoding/hex"
	"hash"

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

// chargeDigest charges for n bytes that are copied and digested.
func chargeDigest(l *glua.LState, n int) {
	m := meterOf(l)
	m.charge(l, digestCost+n/digestBytesPerInstruction)
	m.make(l, digestBytes+n)
}

func cryptoDigest(algorithm func() hash.Hash) glua.LGFunction {
	return func(l *glua.LState) int {
		text := argString(l, 1)
		encode := argEncoding(l, 2)
		chargeDigest(l, len(text))
		h := algorithm()
		h.Write([]byte(text))
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
	chargeDigest(l, len(key)+len(text))
	mac := hmac.New(algorithm, []byte(key))
	mac.Write([]byte(text))
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
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process rather than that
	l.Push(glua.LString(encode(raw)))
	return 1
}

func cryptoUUID(l *glua.LState) int {
	chargeDigest(l, 0)
	var id uuid.UUID
	var err error
	switch optInt(l, 1, 4) {
	case 4:
		id, err = uuid.NewRandom()
	case 7:
		id, err = uuid.NewV7()
	default:
		argError(l, 1, "want version 4 or 7")
	}
	if err != nil { // there is no randomness, which crypto/rand does not survive
		panic(err)
	}
	l.Push(glua.LString(id.String()))
	return 1
}

// cryptoEqual takes as long wherever the two differ.
func cryptoEqual(l *glua.LState) int {
	a, b := argString(l, 1), argString(l, 2)
	chargeDigest(l, len(a)+len(b))
	l.Push(glua.LBool(subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1))
	return 1
}

func cryptoHex(l *glua.LState) int {
	s := argString(l, 1)
	meterOf(l).checkString(l, hex.EncodedLen(len(s)))
	l.Push(glua.LString(hex.EncodeToString([]byte(s))))
	return 1
}

func cryptoUnhex(l *glua.LState) int {
	s := argString(l, 1)
	meterOf(l).chargeBytes(l, len(s))
	meterOf(l).make(l, stringBytes+2*len(s))
	raw, err := hex.DecodeString(s)
	if err != nil {
		return pushFailure(l, "not valid hexadecimal")
	}
	l.Push(glua.LString(raw))
	return 1
}
