package seal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Types of PEM blocks (RFC 7468): what openssl writes and reads.
const (
	privateBlock = "PRIVATE KEY" // PKCS #8
	publicBlock  = "PUBLIC KEY"  // SubjectPublicKeyInfo
)

// KeyID returns a short name of the key: the first 16 hexadecimal digits of the
// SHA-256 of its 32 bytes.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// GenerateKey returns a new key.
func GenerateKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	return key, err
}

// EncodePrivateKey returns the key as PEM.
func EncodePrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, script.Errorf(script.Internal, "key", "cannot be encoded: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der}), nil
}

// EncodePublicKeys returns the keys as PEM, one block after another.
func EncodePublicKeys(keys ...ed25519.PublicKey) ([]byte, error) {
	var out []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return nil, script.Errorf(script.Internal, "key", "cannot be encoded: %w", err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der})...)
	}
	return out, nil
}

// ReadPrivateKey reads the first key of a file of private keys. Errors are Invalid and name the
// file.
func ReadPrivateKey(path string) (ed25519.PrivateKey, error) {
	keys, err := ReadPrivateKeys(path)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// ReadPrivateKeys reads a file of private keys, which has at least one. Errors are Invalid and
// name the file.
func ReadPrivateKeys(path string) (keys []ed25519.PrivateKey, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != privateBlock {
			continue
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, script.Errorf(script.Invalid, path, "its private key cannot be read: %w", err)
		}
		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return nil, script.Errorf(script.Invalid, path, "holds a key of another kind: want Ed25519, such as `scriptctl keys generate` makes")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, script.Errorf(script.Invalid, path, "holds no private key in PEM: make one with `scriptctl keys generate`")
	}
	return keys, nil
}

// ReadPublicKeys reads the files of public keys, of which each may hold several.
// Errors are Invalid and name the file.
func ReadPublicKeys(paths ...string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, script.Errorf(script.Invalid, path, "cannot be read: %w", err)
		}
		of, err := decodePublicKeys(data)
		if err != nil {
			return nil, script.Errorf(script.Invalid, path, "%w", err)
		}
		keys = append(keys, of...)
	}
	return keys, nil
}

func decodePublicKeys(data []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == privateBlock {
			return nil, script.Errorf(script.Invalid, "", "holds a private key, which belongs to the registry alone: give agents what `scriptctl keys public` prints")
		}
		if block.Type != publicBlock {
			continue
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, script.Errorf(script.Invalid, "", "its public key cannot be read: %w", err)
		}
		known, ok := key.(ed25519.PublicKey)
		if !ok {
			return nil, script.Errorf(script.Invalid, "", "holds a key of another kind: want Ed25519")
		}
		keys = append(keys, known)
	}
	if len(keys) == 0 {
		return nil, script.Errorf(script.Invalid, "", "holds no public key in PEM")
	}
	return keys, nil
}
