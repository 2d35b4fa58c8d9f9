// Package seal puts messages into envelopes and takes them out again. An envelope
// is a DSSE envelope (https://github.com/secure-systems-lab/dsse) with Ed25519
// signatures: the registry seals what agents believe, and agents believe what a key
// that they trust has sealed.
package seal

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Numbers of the wire protocol.
const (
	// Protocol is what this software speaks.
	Protocol = 2
	// StatusProtocol is what an agent's Status and Logs say: they have only gained fields
	// since, so that registries of either protocol can read those of either.
	StatusProtocol = 1
)

// What is wrong with an envelope that is not believed: these are in the chain of
// Open's errors.
var (
	ErrUnsigned   = errors.New("nobody has signed it")
	ErrUnknownKey = errors.New("it is signed by no key that is trusted here")
	ErrForged     = errors.New("its signature does not fit its content")
)

// Sealer seals messages, so that the same message, key and software give the same
// bytes. It is immutable and safe for concurrent use.
type Sealer struct {
	key    ed25519.PrivateKey
	id     string
	former []ed25519.PrivateKey
}

// NewSealer returns a sealer that signs with the key. With former ones it verifies sessions
// and copies of agents alone, for as long as other registries sign with them.
func NewSealer(key ed25519.PrivateKey, former ...ed25519.PrivateKey) *Sealer {
	return &Sealer{key: key, id: idOf(key), former: former}
}

func idOf(key ed25519.PrivateKey) string { return KeyID(key.Public().(ed25519.PublicKey)) }

// Unsigned returns a sealer that does not sign: only readers that do not ask for
// signatures believe what it seals.
func Unsigned() *Sealer { return &Sealer{} }

// KeyID returns the id of the key that signs; "" for none.
func (s *Sealer) KeyID() string { return s.id }

// KeyIDs returns the ids of the key that signs, and of the former ones.
func (s *Sealer) KeyIDs() []string {
	ids := []string{s.id}
	for _, key := range s.former {
		ids = append(ids, idOf(key))
	}
	return ids
}

// Keyring returns a keyring that believes what s signs, or signed with a former key; nothing
// if it signs nothing.
func (s *Sealer) Keyring() *Keyring {
	var keys []ed25519.PublicKey
	for _, key := range append([]ed25519.PrivateKey{s.key}, s.former...) {
		if key != nil {
			keys = append(keys, key.Public().(ed25519.PublicKey))
		}
	}
	return NewKeyring(keys...)
}

// Seal returns m in an envelope.
func (s *Sealer) Seal(m proto.Message) ([]byte, error) {
	env, err := envelope(m, Protocol)
	if err != nil {
		return nil, err
	}
	if s.key != nil {
		env.Signatures = []*eventv1.Signature{{
			KeyId:     s.id,
			Signature: ed25519.Sign(s.key, dsse.PAE(env.GetPayloadType(), env.GetPayload())),
		}}
	}
	return marshal.Marshal(env)
}

var marshal = proto.MarshalOptions{Deterministic: true}

func envelope(m proto.Message, protocol uint32) (*eventv1.Envelope, error) {
	name := m.ProtoReflect().Descriptor().FullName()
	payload, err := marshal.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return &eventv1.Envelope{Protocol: protocol, PayloadType: string(name), Payload: payload}, nil
}

// Unpack takes the message out of an envelope whose signatures need not be looked
// at: it came within a message that was believed. It returns the id of the key that
// the envelope says to be signed by, "" for none, which proves nothing.
func Unpack(data []byte, m proto.Message) (keyID string, err error) {
	env, err := open(data, m.ProtoReflect().Descriptor().FullName(), Protocol)
	if err != nil {
		return "", err
	}
	if len(env.GetSignatures()) > 0 {
		keyID = env.GetSignatures()[0].GetKeyId()
	}
	return keyID, decode(env, m)
}

// open decodes an envelope that must hold a message of the type.
func open(data []byte, want protoreflect.FullName, protocol uint32) (*eventv1.Envelope, error) {
	var env eventv1.Envelope
	if err := proto.Unmarshal(data, &env); err != nil {
		return nil, script.Errorf(script.Invalid, "envelope", "cannot be decoded: %w", err)
	}
	if env.GetProtocol() != protocol {
		return nil, script.Errorf(script.Invalid, "envelope.protocol", "is %d; this software speaks %d", env.GetProtocol(), protocol)
	}
	if got := protoreflect.FullName(env.GetPayloadType()); got != want {
		return nil, script.Errorf(script.Invalid, "envelope.payload_type", "is %.80q, want %q", got, want)
	}
	return &env, nil
}

func decode(env *eventv1.Envelope, m proto.Message) error {
	if err := proto.Unmarshal(env.GetPayload(), m); err != nil {
		return script.Errorf(script.Invalid, "envelope.payload", "cannot be decoded: %w", err)
	}
	return nil
}
