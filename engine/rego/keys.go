package rego

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The work of verifying a signature with an RSA key grows with the square of its length. A unit of work is a key of 1,024
// bits: one of 2,048 bits takes four.
const (
	maxKeyWork   = 1024
	maxChainWork = 64 // a chain may try each certificate a hundred times
)

// verifies reports whether a signature may be verified with the second operand.
func verifies(operands []*ast.Term) bool { return usable(text(operands[1])) }

// verifiesWith reports whether a signature may be verified with the second operand, of which the member cert is the key.
func verifiesWith(operands []*ast.Term) bool {
	o, ok := operands[1].Value.(ast.Object)
	if !ok {
		return true
	}
	key := o.Get(ast.InternedTerm("cert"))
	return key == nil || usable(text(key))
}

// usable reports whether keys are small enough: a PEM block, or keys as JSON.
func usable(key string) bool {
	const short = 1 << 10 // text of that length has no large keys
	if len(key) <= short {
		return true
	}
	code := []byte(key)
	block, _ := pem.Decode(code)
	if block == nil {
		return jsonWork(code) <= maxKeyWork
	}
	if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
		return keyWork(cert.PublicKey) <= maxKeyWork
	}
	public, _ := x509.ParsePKIXPublicKey(block.Bytes)
	return keyWork(public) <= maxKeyWork
}

// The work of verifying a signature with a key on a curve.
const (
	curveWork = 10
	p384Work  = 40
	p521Work  = 100
)

// jsonWork is of all keys in JSON: the moduli of RSA keys are members n, and the curves of others are members crv. A
// signature may be verified with each.
func jsonWork(code []byte) (work int) {
	tokens := json.NewDecoder(bytes.NewReader(code))
	for before := ""; ; {
		token, err := tokens.Token()
		if err != nil {
			return work
		}
		s, _ := token.(string)
		switch {
		case strings.EqualFold(before, "n"):
			work = addWork(work, 6*len(s))
		case !strings.EqualFold(before, "crv"):
		case s == "P-521":
			work = min(work+p521Work, maxKeyWork+1)
		case s == "P-384":
			work = min(work+p384Work, maxKeyWork+1)
		default:
			work = min(work+curveWork, maxKeyWork+1)
		}
		before = s
	}
}

// verifiesChain reports whether a chain of certificates may be verified. The first operand has PEM blocks, or their bytes; either
// may be base64.
func verifiesChain(operands []*ast.Term) bool {
	const begin = "-----BEGIN"
	certificates := text(operands[0])
	code := []byte(certificates)
	if !strings.HasPrefix(certificates, begin) {
		code, _ = base64.StdEncoding.DecodeString(certificates)
	}
	if bytes.HasPrefix(code, []byte(begin)) {
		var all []byte
		for block, rest := pem.Decode(code); block != nil; block, rest = pem.Decode(rest) {
			all = append(all, block.Bytes...)
		}
		code = all
	}
	work := 0
	certs, _ := x509.ParseCertificates(code)
	for _, c := range certs {
		work += keyWork(c.PublicKey)
	}
	return work <= maxChainWork
}

func keyWork(public any) int {
	if key, ok := public.(*rsa.PublicKey); ok {
		return addWork(0, key.N.BitLen())
	}
	return 0
}

// addWork adds the work of a key, as far as it matters.
func addWork(work, bits int) int {
	length := min(bits/1024, maxKeyWork)
	return min(work+length*length, maxKeyWork+1)
}
