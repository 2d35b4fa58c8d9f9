package publisher

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/crypto/ssh"

	"github.com/scriptorium-dev/scriptorium/script"
)

// wantKey says which keys there may be.
const wantKey = "want Ed25519 or ECDSA P-256"

// key is a public key.
type key struct {
	id     string
	public crypto.PublicKey
}

// newKey returns the key with its id: the fingerprint that ssh-keygen shows.
func newKey(public crypto.PublicKey) (key, error) {
	switch k := public.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return key{}, script.Errorf(script.Invalid, "", "is an ECDSA key on %s: %s", k.Curve.Params().Name, wantKey)
		}
	default:
		return key{}, script.Errorf(script.Invalid, "", "is a key of another kind: %s", wantKey)
	}
	known, err := ssh.NewPublicKey(public)
	if err != nil {
		return key{}, script.Errorf(script.Invalid, "", "cannot be used: %w", err)
	}
	return key{id: ssh.FingerprintSHA256(known), public: public}, nil
}

func (k key) verifies(message, signature []byte) bool {
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(public, message, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(public, sum[:], signature)
	}
	return false
}

// parseKeys reads public keys: PEM blocks, lines as in OpenSSH's authorized_keys, and comments
// after a #. It reads all of the text or none.
func parseKeys(text string) (keys []key, err error) {
	for rest := bytes.TrimSpace([]byte(text)); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var public crypto.PublicKey
		switch {
		case rest[0] == '#':
			_, rest, _ = bytes.Cut(rest, newline)
			continue
		case bytes.HasPrefix(rest, beginning):
			public, rest, err = parseBlock(rest)
		default:
			var line []byte
			line, rest, _ = bytes.Cut(rest, newline)
			public, err = parseLine(line)
		}
		if err != nil {
			return nil, err
		}
		k, err := newKey(public)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, script.Errorf(script.Invalid, "", "has no key: %s, in PEM or as a line of OpenSSH", wantKey)
	}
	return keys, nil
}

var newline, beginning = []byte("\n"), []byte("-----BEGIN")

// parseBlock reads the PEM block that text begins with.
func parseBlock(text []byte) (public crypto.PublicKey, rest []byte, err error) {
	block, rest := pem.Decode(text)
	if block == nil || bytes.Count(text[:len(text)-len(rest)], beginning) > 1 { // one that is broken is skipped
		return nil, nil, script.Errorf(script.Invalid, "", "has a PEM block that cannot be read: copy it whole, from BEGIN to END")
	}
	if block.Type != "PUBLIC KEY" {
		return nil, nil, script.Errorf(script.Invalid, "", "has a PEM block %q: want PUBLIC KEY, and no private keys", block.Type)
	}
	if public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		return nil, nil, script.Errorf(script.Invalid, "", "has a PEM block that is no key: %w", err)
	}
	return public, rest, nil
}

func parseLine(line []byte) (crypto.PublicKey, error) {
	public, _, options, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "", `is neither a key of OpenSSH such as "ssh-ed25519 AAAA…" nor one in PEM: %.80q`, line)
	}
	if len(options) > 0 {
		return nil, script.Errorf(script.Invalid, "", "has the option %.80q before a key, which has no effect here: remove it", options[0])
	}
	known, ok := public.(ssh.CryptoPublicKey)
	if !ok || strings.HasPrefix(public.Type(), "sk-") { // a token signs more than it is given
		return nil, script.Errorf(script.Invalid, "", "is a key of the type %s: %s", public.Type(), wantKey)
	}
	return known.CryptoPublicKey(), nil
}

// Signer is a private key.
type Signer struct {
	id  string
	key crypto.Signer
}

var _ dsse.Signer = (*Signer)(nil)

// NewSigner returns a signer with the private key: Ed25519 or ECDSA P-256.
func NewSigner(private crypto.Signer) (*Signer, error) {
	k, err := newKey(private.Public())
	if err != nil {
		return nil, err
	}
	return &Signer{id: k.id, key: private}, nil
}

// ReadSigner reads the file of a private key: PEM (PKCS #8 or SEC 1), OpenSSH's, or
// cosign's. The password is asked for if the key is encrypted. Errors are Invalid and name the file.
func ReadSigner(path string, password func() ([]byte, error)) (*Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	private, err := parsePrivate(data, password)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "%w", err)
	}
	if pointer, ok := private.(*ed25519.PrivateKey); ok { // as OpenSSH's are read
		private = *pointer
	}
	signing, ok := private.(crypto.Signer)
	if !ok {
		return nil, script.Errorf(script.Invalid, path, "holds a key of another kind: %s", wantKey)
	}
	signer, err := NewSigner(signing)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "%w", err)
	}
	return signer, nil
}

func parsePrivate(data []byte, password func() ([]byte, error)) (any, error) {
	if block, _ := pem.Decode(data); block != nil && (block.Type == "ENCRYPTED SIGSTORE PRIVATE KEY" || block.Type == "ENCRYPTED COSIGN PRIVATE KEY") {
		secret, err := password()
		if err != nil {
			return nil, err
		}
		der, err := encrypted.Decrypt(block.Bytes, secret)
		if err != nil {
			return nil, script.Errorf(script.Invalid, "", "cannot be decrypted: is the password right?")
		}
		return x509.ParsePKCS8PrivateKey(der)
	}
	private, err := ssh.ParseRawPrivateKey(data)
	if _, missing := errors.AsType[*ssh.PassphraseMissingError](err); missing {
		secret, err := password()
		if err != nil {
			return nil, err
		}
		if private, err = ssh.ParseRawPrivateKeyWithPassphrase(data, secret); err != nil {
			return nil, script.Errorf(script.Invalid, "", "cannot be decrypted: is the password right?")
		}
		return private, nil
	}
	if err != nil {
		return nil, script.Errorf(script.Invalid, "", "holds no private key that can be read (%w): make one with ssh-keygen -t ed25519", err)
	}
	return private, nil
}

// KeyID implements dsse.Signer.
func (s *Signer) KeyID() (string, error) { return s.id, nil }

// Sign implements dsse.Signer. Without randomness ECDSA is deterministic (RFC 6979), as Ed25519
// is: who signs again changes nothing.
func (s *Signer) Sign(_ context.Context, message []byte) ([]byte, error) {
	if _, pure := s.key.Public().(ed25519.PublicKey); pure {
		return s.key.Sign(nil, message, crypto.Hash(0))
	}
	sum := sha256.Sum256(message)
	return s.key.Sign(nil, sum[:], crypto.SHA256)
}
