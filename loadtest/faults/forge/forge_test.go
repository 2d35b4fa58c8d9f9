package forge

import (
	"crypto/ed25519"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

const ours = "our-fleet"

// genuine are a beacon and an event as a registry sends them.
func genuine(t *testing.T, sealer *seal.Sealer) []message {
	t.Helper()
	mustSeal := func(m proto.Message) []byte {
		data, err := sealer.Seal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	source := []byte("function handle() return 1 end")
	digest := script.DigestOf(source)
	entry := wire.FromReleaseEntry(ours, script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 7, Latest: 1, Enabled: true,
		Active: script.Version{Number: 1, Digest: digest, Engine: "lua", Entrypoint: "handle", Size: len(source)},
	})
	return []message{
		{"beacon", mustSeal(&eventv1.Beacon{Fleet: ours, HeadRevision: 7, Checksums: []*eventv1.Checksum{{Kind: "releases", Sum: make([]byte, 32)}}})},
		{"event", mustSeal(&eventv1.Event{Fleet: ours, Revision: 7, Entries: [][]byte{mustSeal(entry)}})},
	}
}

// TestLiesAreNotTrue: whatever is forged is no message of our fleet by our key,
// unless it is one that was said before.
func TestLiesAreNotTrue(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New([]string{"127.0.0.1:1"}, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := s.forge(rand.New(rand.NewPCG(1, 0))); ok {
		t.Error("something is forged of nothing")
	}
	said := map[string]bool{}
	for _, m := range genuine(t, seal.NewSealer(key)) {
		s.hear(m.subject, m.payload)
		said[string(m.payload)] = true
	}
	ring := seal.NewKeyring(key.Public().(ed25519.PublicKey))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := map[string]int{}
	for range 300 {
		kind, m, ok := s.forge(random)
		if !ok {
			t.Fatalf("%q cannot be forged", kind)
		}
		kinds[kind]++
		if said[string(m.payload)] {
			continue
		}
		var beacon eventv1.Beacon
		if _, err := ring.Open(m.payload, &beacon); err == nil && beacon.GetFleet() == ours && !unchanged(&beacon) {
			t.Errorf("%s: a true beacon: %v", kind, &beacon)
		}
		var event eventv1.Event
		if _, err := ring.Open(m.payload, &event); err == nil && event.GetFleet() == ours && event.GetRevision() != 7 {
			t.Errorf("%s: a true event: %v", kind, &event)
		}
	}
	if len(kinds) != 6 {
		t.Errorf("only %v", kinds)
	}
}

// unchanged: a flipped bit may be in what nobody signs, such as the name of the key.
func unchanged(b *eventv1.Beacon) bool { return b.GetHeadRevision() == 7 && b.GetTerm() == 0 }
