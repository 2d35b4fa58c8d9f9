package seal

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxSignatures of an envelope are looked at.
const maxSignatures = 8

// Keyring holds the public keys that are trusted: several at once, so that one can
// follow another without a gap. It is safe for concurrent use; its keys can be
// replaced while it is used.
type Keyring struct {
	keys     atomic.Pointer[map[string]ed25519.PublicKey]
	unsigned bool
}

// NewKeyring returns a keyring that believes what any of the keys has signed.
func NewKeyring(keys ...ed25519.PublicKey) *Keyring {
	k := &Keyring{}
	k.Replace(keys...)
	return k
}

// TrustEverything returns a keyring that believes whatever it is given, signed or
// not. It is for tests, and for those who trust their network.
func TrustEverything() *Keyring {
	k := NewKeyring()
	k.unsigned = true
	return k
}

// Replace trusts the keys from now on, and no others.
func (k *Keyring) Replace(keys ...ed25519.PublicKey) {
	byID := make(map[string]ed25519.PublicKey, len(keys))
	for _, key := range keys {
		byID[KeyID(key)] = key
	}
	k.keys.Store(&byID)
}

// KeyIDs returns the ids of the trusted keys, sorted.
func (k *Keyring) KeyIDs() []string { return slices.Sorted(maps.Keys(*k.keys.Load())) }

// TrustsEverything reports whether k believes whatever it is given.
func (k *Keyring) TrustsEverything() bool { return k.unsigned }

// Open verifies an envelope and takes the message out of it. It returns the id of
// the trusted key that has signed it; "" if the keyring trusts everything and none
// of its keys has. m is changed only if the envelope is believed. The error's chain
// has ErrUnsigned, ErrUnknownKey or ErrForged if it is not; it is Invalid if the
// envelope cannot be read or holds something else, and Denied otherwise.
func (k *Keyring) Open(data []byte, m proto.Message) (keyID string, err error) {
	env, err := open(data, m.ProtoReflect().Descriptor().FullName(), Protocol)
	if err != nil {
		return "", err
	}
	id, err := k.verify(env)
	if err != nil && !k.unsigned {
		return "", script.Errorf(script.Denied, "envelope.signatures", "a %s is not believed: %w", env.GetPayloadType(), err)
	}
	return id, decode(env, m)
}

// verify returns the id of the first trusted key whose signature holds.
func (k *Keyring) verify(env *eventv1.Envelope) (string, error) {
	if len(env.GetSignatures()) == 0 {
		return "", ErrUnsigned
	}
	keys, result := *k.keys.Load(), ErrUnknownKey
	signed := dsse.PAE(env.GetPayloadType(), env.GetPayload())
	for _, s := range env.GetSignatures()[:min(maxSignatures, len(env.GetSignatures()))] {
		key, known := keys[s.GetKeyId()]
		if !known {
			continue
		}
		if ed25519.Verify(key, signed, s.GetSignature()) {
			return s.GetKeyId(), nil
		}
		result = ErrForged
	}
	return "", result
}
