package rego_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// odd returns a modulus of so many bits, which is no key: to find out takes as long as with a key.
func odd(bits int) *rsa.PublicKey {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	return &rsa.PublicKey{N: n.Sub(n, big.NewInt(159)), E: 65537}
}

func publicPEM(t *testing.T, key *rsa.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func jwk(key *rsa.PublicKey) string {
	return `{"kty":"RSA","e":"AQAB","n":"` + base64.RawURLEncoding.EncodeToString(key.N.Bytes()) + `"}`
}

// curveKeys returns a token with a signature that no key has made, and n times the same key.
func curveKeys(t *testing.T, n int) (token, keys string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	const length = 66
	part := base64.RawURLEncoding.EncodeToString
	one := `{"kty":"EC","crv":"P-521","x":"` + part(point[1:1+length]) + `","y":"` + part(point[1+length:]) + `"}`
	signature := make([]byte, 2*length)
	signature[length-1], signature[2*length-1] = 1, 1
	token = part([]byte(`{"alg":"ES512"}`)) + "." + part([]byte(`{}`)) + "." + part(signature)
	return token, `{"keys":[` + strings.Repeat(one+",", n-1) + one + "]}"
}

// token signs a token with the key, or with anything if there is none.
func token(t *testing.T, key *rsa.PrivateKey, bytes int) string {
	t.Helper()
	part := base64.RawURLEncoding.EncodeToString
	text := part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(`{}`))
	signature := make([]byte, bytes)
	if key != nil {
		sum := sha256.Sum256([]byte(text))
		var err error
		if signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]); err != nil {
			t.Fatal(err)
		}
	}
	return text + "." + part(signature)
}

// chain returns a root with a key that is hard to verify with, and a certificate that names it as its issuer.
func chain(t *testing.T, key *rsa.PrivateKey, root *rsa.PublicKey) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, RawSubject: []byte{0x30, 0}}
	var text strings.Builder
	for _, public := range []*rsa.PublicKey{root, &key.PublicKey} {
		der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// TestGuardsOfKeys: no key makes a call work for long, and keys that people use work.
func TestGuardsOfKeys(t *testing.T) {
	needs.NoRace(t)
	const large = 64 << 10
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	many := `{"keys":[` + strings.Repeat(jwk(&own.PublicKey)+",", 15) + jwk(&own.PublicKey) + "]}"
	pair := func(a, b string) string {
		text, err := json.Marshal([]string{a, b})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const verify, decode = `decision := io.jwt.verify_rs256(input[0], input[1])`, `decision := io.jwt.decode_verify(input[0], {"cert": input[1]})[0]`
	const curve = `decision := io.jwt.verify_es512(input[0], input[1])`
	const certificates = `decision := crypto.x509.parse_and_verify_certificates(input[0])[0]`
	for name, test := range map[string]struct{ body, input, want string }{
		"key":         {verify, pair(token(t, own, 0), publicPEM(t, &own.PublicKey)), "true"},
		"keys":        {verify, pair(token(t, own, 0), many), "true"},
		"decode":      {decode, pair(token(t, own, 0), publicPEM(t, &own.PublicKey)), "true"},
		"chain":       {certificates, pair(chain(t, own, &own.PublicKey), ""), "true"},
		"large":       {verify, pair(token(t, nil, large/8), publicPEM(t, odd(large))), ""},
		"large JSON":  {verify, pair(token(t, nil, large/8), strings.Replace(jwk(odd(large)), `"n"`, `"n":"AQAB","n"`, 1)), ""},
		"large, too":  {decode, pair(token(t, nil, large/8), publicPEM(t, odd(large))), ""},
		"large root":  {certificates, pair(chain(t, own, odd(large)), ""), ""},
		"base64":      {certificates, pair(base64.StdEncoding.EncodeToString([]byte(chain(t, own, odd(large)))), ""), ""},
		"curve keys":  {curve, pair(curveKeys(t, 10)), "false"},
		"many curves": {curve, pair(curveKeys(t, 1000)), ""},
		"many places": {`decision := count(regex.find_n("a?", input[0], -1))`, pair(strings.Repeat("a", 300_000), ""), ""},
	} {
		for _, target := range []string{"interpreted", "wasm"} {
			t.Run(name+"/"+target, func(t *testing.T) {
				inv := &engine.Invocation{Args: [][]byte{[]byte(test.input)}, Limits: script.Limits{Instructions: 100_000_000, Timeout: 10 * time.Second}}
				got, err := run(t, source("package p\n"+test.body, target), inv)
				if test.want == "" && script.KindOf(err) != script.Limit || test.want != "" && (err != nil || got != test.want) {
					t.Errorf("got %.80s, %v, want %s", got, err, test.want)
				}
			})
		}
	}
}
