package seal_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func mustSeal(t *testing.T, s *seal.Sealer, m proto.Message) []byte {
	t.Helper()
	data, err := s.Seal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var beacon = &eventv1.Beacon{Fleet: "f", HeadRevision: 7, Group: "all"}

func TestBelievesWhatATrustedKeySigned(t *testing.T) {
	old, current := newKey(t), newKey(t)
	ring := seal.NewKeyring(public(old), public(current))
	for _, key := range []ed25519.PrivateKey{old, current} {
		sealer := seal.NewSealer(key)
		data := mustSeal(t, sealer, beacon)
		if !bytes.Equal(data, mustSeal(t, seal.NewSealer(key), beacon)) {
			t.Error("two seals of one message differ")
		}
		var got eventv1.Beacon
		id, err := ring.Open(data, &got)
		if err != nil || id != sealer.KeyID() || !proto.Equal(&got, beacon) {
			t.Errorf("Open: %q, %v, %v", id, err, &got)
		}
	}
	ring.Replace(public(current))
	if _, err := ring.Open(mustSeal(t, seal.NewSealer(old), beacon), &eventv1.Beacon{}); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("a key that was replaced: %v, want ErrUnknownKey", err)
	}
}

func TestKeyringOfASealer(t *testing.T) {
	old, current := newKey(t), newKey(t)
	ring := seal.NewSealer(current, old).Keyring()
	for _, key := range []ed25519.PrivateKey{old, current} {
		if _, err := ring.Open(mustSeal(t, seal.NewSealer(key), beacon), &eventv1.Beacon{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := ring.Open(mustSeal(t, seal.NewSealer(newKey(t)), beacon), &eventv1.Beacon{}); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("another key: %v", err)
	}
	if _, err := seal.Unsigned().Keyring().Open(mustSeal(t, seal.Unsigned(), beacon), &eventv1.Beacon{}); !errors.Is(err, seal.ErrUnsigned) {
		t.Errorf("without a key: %v", err)
	}
}

func TestRefusesWhatNoTrustedKeySigned(t *testing.T) {
	key, other := newKey(t), newKey(t)
	ring := seal.NewKeyring(public(key))
	sound := mustSeal(t, seal.NewSealer(key), beacon)
	reseal := func(change func(*eventv1.Envelope)) []byte {
		var env eventv1.Envelope
		if err := proto.Unmarshal(sound, &env); err != nil {
			t.Fatal(err)
		}
		change(&env)
		data, err := proto.Marshal(&env)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, tt := range []struct {
		name string
		data []byte
		want error
		kind script.Kind
	}{
		{"unsigned", mustSeal(t, seal.Unsigned(), beacon), seal.ErrUnsigned, script.Denied},
		{"by a stranger", mustSeal(t, seal.NewSealer(other), beacon), seal.ErrUnknownKey, script.Denied},
		{"by a stranger under our key's name", reseal(func(e *eventv1.Envelope) {
			e.Signatures[0].Signature = ed25519.Sign(other, e.GetPayload())
		}), seal.ErrForged, script.Denied},
		{"altered", reseal(func(e *eventv1.Envelope) { e.Payload[len(e.Payload)-1] ^= 1 }), seal.ErrForged, script.Denied},
		{"a short signature", reseal(func(e *eventv1.Envelope) { e.Signatures[0].Signature = []byte{1} }), seal.ErrForged, script.Denied},
		{"payload of another type", reseal(func(e *eventv1.Envelope) { e.PayloadType = "scriptorium.event.v1.Event" }), nil, script.Invalid},
		{"another protocol", reseal(func(e *eventv1.Envelope) { e.Protocol = 1 }), nil, script.Invalid},
		{"noise", []byte("\xff\xfe"), nil, script.Invalid},
	} {
		got := &eventv1.Beacon{}
		_, err := ring.Open(tt.data, got)
		if script.KindOf(err) != tt.kind || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if !proto.Equal(got, &eventv1.Beacon{}) {
			t.Errorf("%s: the message was changed", tt.name)
		}
	}
	// The same bytes under the name of another message: the signature holds the type.
	renamed := reseal(func(e *eventv1.Envelope) { e.PayloadType = "scriptorium.event.v1.RollCall" })
	if _, err := ring.Open(renamed, &eventv1.RollCall{}); !errors.Is(err, seal.ErrForged) {
		t.Errorf("a beacon as a roll call: %v, want ErrForged", err)
	}
}

func TestKeyFiles(t *testing.T) {
	key, other := newKey(t), newKey(t)
	dir := t.TempDir()
	private, trusted := filepath.Join(dir, "key"), filepath.Join(dir, "trusted")
	pem, err := seal.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := seal.EncodePublicKeys(public(key), public(other))
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{private: pem, trusted: pub, filepath.Join(dir, "empty"): nil} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := seal.ReadPrivateKey(private); err != nil || !got.Equal(key) {
		t.Errorf("ReadPrivateKey: %v", err)
	}
	second, err := seal.EncodePrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(dir, "both")
	if err := os.WriteFile(both, append(pem, second...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := seal.ReadPrivateKeys(both); err != nil || len(got) != 2 || !got[0].Equal(key) || !got[1].Equal(other) {
		t.Errorf("ReadPrivateKeys: %d keys, %v", len(got), err)
	}
	if got, err := seal.ReadPublicKeys(trusted); err != nil || len(got) != 2 || !got[1].Equal(public(other)) {
		t.Errorf("ReadPublicKeys: %v, %v", got, err)
	}
	for _, path := range []string{private, filepath.Join(dir, "empty"), filepath.Join(dir, "none")} {
		if _, err := seal.ReadPublicKeys(path); script.KindOf(err) != script.Invalid {
			t.Errorf("ReadPublicKeys(%s): %v, want Invalid", filepath.Base(path), err)
		}
	}
	if _, err := seal.ReadPrivateKey(trusted); script.KindOf(err) != script.Invalid {
		t.Errorf("a public key as a private one: %v, want Invalid", err)
	}
}

func TestStatusOfASession(t *testing.T) {
	want := &eventv1.Status{Fleet: "f", Agent: "a", Labels: map[string]string{"zone": "x"}}
	secret, token := []byte("secret"), []byte("token")
	keyOf := func(token []byte) ([]byte, error) { return seal.SessionKey(secret, token), nil }
	in := seal.Session{Token: token, Key: seal.SessionKey(secret, token)}
	sealed := func(in seal.Session, change func(*eventv1.Envelope)) []byte {
		t.Helper()
		data, err := seal.SealStatus(want, in)
		if err != nil {
			t.Fatal(err)
		}
		var env eventv1.Envelope
		if err := proto.Unmarshal(data, &env); err != nil {
			t.Fatal(err)
		}
		change(&env)
		if data, err = proto.Marshal(&env); err != nil {
			t.Fatal(err)
		}
		return data
	}
	same := func(*eventv1.Envelope) {}
	var got eventv1.Status
	opened, err := seal.OpenStatus(sealed(in, same), keyOf)
	if err != nil || !bytes.Equal(opened.Token, token) || opened.Decode(&got) != nil || !proto.Equal(&got, want) {
		t.Errorf("OpenStatus: %v, %v", err, &got)
	}
	for _, tt := range []struct {
		name string
		data []byte
		want error
	}{
		{"without a session", sealed(seal.Session{}, same), seal.ErrUnsigned},
		{"without its signature", sealed(in, func(e *eventv1.Envelope) { e.Signatures = nil }), seal.ErrUnsigned},
		{"with another key", sealed(seal.Session{Token: token, Key: make([]byte, 32)}, same), seal.ErrForged},
		{"in another session", sealed(in, func(e *eventv1.Envelope) { e.Session = []byte("other") }), seal.ErrForged},
		{"altered", sealed(in, func(e *eventv1.Envelope) { e.Payload[0] ^= 1 }), seal.ErrForged},
		{"with half a signature", sealed(in, func(e *eventv1.Envelope) { e.Signatures[0].Signature = e.Signatures[0].Signature[:16] }), seal.ErrForged},
	} {
		if _, err := seal.OpenStatus(tt.data, keyOf); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := seal.ReadStatus(sealed(seal.Session{}, same), &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("ReadStatus: %v, %v", err, &got)
	}
}

// TestAnswerOfASession: an answer is signed as a status is, and neither of them is taken for the other.
func TestAnswerOfASession(t *testing.T) {
	want := &eventv1.Answer{Fleet: "f", Id: "i", Agent: "a"}
	token := []byte("token")
	keyOf := func(token []byte) ([]byte, error) { return seal.SessionKey([]byte("secret"), token), nil }
	in := seal.Session{Token: token, Key: seal.SessionKey([]byte("secret"), token)}
	data, err := seal.SealAnswer(want, in)
	if err != nil {
		t.Fatal(err)
	}
	var got eventv1.Answer
	opened, err := seal.OpenAnswer(data, keyOf)
	if err != nil || !bytes.Equal(opened.Token, token) || opened.Decode(&got) != nil || !proto.Equal(&got, want) {
		t.Errorf("OpenAnswer: %v, %v", err, &got)
	}
	if _, err := seal.OpenStatus(data, keyOf); script.KindOf(err) != script.Invalid {
		t.Errorf("an answer as a status: %v", err)
	}
	status, err := seal.SealStatus(&eventv1.Status{Fleet: "f", Agent: "a"}, in)
	if err != nil {
		t.Fatal(err)
	}
	var env eventv1.Envelope
	if err := proto.Unmarshal(status, &env); err != nil {
		t.Fatal(err)
	}
	env.PayloadType = "scriptorium.event.v1.Answer"
	if status, err = proto.Marshal(&env); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.OpenAnswer(status, keyOf); !errors.Is(err, seal.ErrForged) {
		t.Errorf("a status as an answer: %v", err)
	}
	if unsigned, err := seal.SealAnswer(want, seal.Session{}); err != nil {
		t.Error(err)
	} else if _, err := seal.OpenAnswer(unsigned, keyOf); !errors.Is(err, seal.ErrUnsigned) {
		t.Errorf("without a session: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	ring := seal.NewKeyring(make(ed25519.PublicKey, ed25519.PublicKeySize))
	f.Add([]byte("\x08\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := ring.Open(data, &eventv1.Beacon{}); err == nil {
			t.Error("an envelope that nobody has sealed was believed")
		}
	})
}
