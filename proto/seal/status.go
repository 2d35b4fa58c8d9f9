package seal

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Session is what an agent reports in: a registry made it while the agent pulled.
type Session struct {
	Token []byte // an encoded eventv1.Session, which everybody may see
	Key   []byte // nobody but the agent and the registries has it
}

// KeyID returns the id of the key that the session's key follows from; "" if the token has none.
func (s Session) KeyID() string {
	var m eventv1.Session
	if proto.Unmarshal(s.Token, &m) != nil {
		return ""
	}
	return m.GetKeyId()
}

// SessionSecret returns what the keys of sessions follow from: of a secret that the registries
// share, and of the key with that place in KeyIDs. Neither of the two is enough.
func (s *Sealer) SessionSecret(key int, shared []byte) ([]byte, error) {
	var own []byte // nothing of a sealer that does not sign
	if s.key != nil {
		own = append([]ed25519.PrivateKey{s.key}, s.former...)[key].Seed()
	}
	return hkdf.Key(sha256.New, own, shared, "scriptorium session secret", sha256.Size)
}

// SessionKey returns the key of the session with the token, which follows from what
// SessionSecret returns.
func SessionKey(secret, token []byte) []byte {
	return mac(secret, []byte("scriptorium session key\n"), token)
}

// SealStatus returns the status in an envelope that carries the session. The zero Session
// signs nothing: registries do not believe such a status.
func SealStatus(m *eventv1.Status, in Session) ([]byte, error) { return sealIn(m, in) }

// SealAnswer does for an answer what SealStatus does for a status.
func SealAnswer(m *eventv1.Answer, in Session) ([]byte, error) { return sealIn(m, in) }

// sealIn returns the message in an envelope that carries the session, and that its key signs.
func sealIn(m proto.Message, in Session) ([]byte, error) {
	env, err := envelope(m, StatusProtocol)
	if err != nil {
		return nil, err
	}
	if len(in.Key) > 0 {
		env.Session = in.Token
		env.Signatures = []*eventv1.Signature{{Signature: signIn(in.Key, env)}}
	}
	return marshal.Marshal(env)
}

// OpenedStatus is a status that the key of a session has signed.
type OpenedStatus struct{ opened }

// Decode reads the status.
func (s OpenedStatus) Decode(m *eventv1.Status) error { return decode(s.env, m) }

// OpenedAnswer is an answer that the key of a session has signed.
type OpenedAnswer struct{ opened }

// Decode reads the answer.
func (a OpenedAnswer) Decode(m *eventv1.Answer) error { return decode(a.env, m) }

// opened is a message that the key of a session has signed.
type opened struct {
	Token []byte // of the session
	env   *eventv1.Envelope
}

// OpenStatus verifies the envelope of a status. keyOf returns the key of a session for its
// token; its errors come back as they are. The chain of others has ErrUnsigned or ErrForged,
// unless the envelope cannot be read.
func OpenStatus(data []byte, keyOf func(token []byte) ([]byte, error)) (OpenedStatus, error) {
	o, err := openIn(data, (*eventv1.Status)(nil), keyOf)
	return OpenedStatus{o}, err
}

// OpenAnswer does for an answer what OpenStatus does for a status.
func OpenAnswer(data []byte, keyOf func(token []byte) ([]byte, error)) (OpenedAnswer, error) {
	o, err := openIn(data, (*eventv1.Answer)(nil), keyOf)
	return OpenedAnswer{o}, err
}

// openIn verifies the envelope of a message of the type of m.
func openIn(data []byte, m proto.Message, keyOf func(token []byte) ([]byte, error)) (opened, error) {
	env, err := open(data, m.ProtoReflect().Descriptor().FullName(), StatusProtocol)
	if err != nil {
		return opened{}, err
	}
	if len(env.GetSession()) == 0 || len(env.GetSignatures()) == 0 {
		return opened{}, script.Errorf(script.Denied, "envelope.session", "a %s without a session: %w", env.GetPayloadType(), ErrUnsigned)
	}
	key, err := keyOf(env.GetSession())
	if err != nil {
		return opened{}, err
	}
	if !hmac.Equal(signIn(key, env), env.GetSignatures()[0].GetSignature()) {
		return opened{}, script.Errorf(script.Denied, "envelope.signatures", "a %s is not of its session: %w", env.GetPayloadType(), ErrForged)
	}
	return opened{Token: env.GetSession(), env: env}, nil
}

// ReadStatus takes a status out of its envelope, whoever made it.
func ReadStatus(data []byte, m *eventv1.Status) error {
	return openUnsigned(data, m)
}

func signIn(key []byte, env *eventv1.Envelope) []byte {
	prefix := fmt.Appendf(nil, "%d %s ", len(env.GetPayloadType()), env.GetPayloadType())
	return mac(key, prefix, env.GetPayload())
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	return h.Sum(nil)
}
