package wire_test

import (
	"encoding/hex"
	"testing"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// before are a release and a tenant as an edition without decision logs wrote them, with their
// fingerprints there.
var before = []struct{ record, fingerprint string }{
	{
		"0a1372656c65617365732f61636d652f726f757465102a1aff010a0461636d651205726f757465182a2240080312202d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a48811a036c7561220668616e646c65" +
			"28013203616e6e42060880e2cfaa06280338014a65080312202d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a48811a036c7561220668616e646c6528013203616e6e42060880e2cfaa065220dbfe" +
			"0217210a4af22f9bd27f50db57ba0949d4ce732da5766933577aa410c32358b70152390a0608071202080112100a0c687474702d7265717565737410021a077b2261223a317d2005320d0a036f6e6522065343524950543a0310ad035a060881e2cfaa06",
		"56fc006a7fff98262d06669d9370e37e0ddb6111706a555c6b81140d20411583",
	},
	{
		"0a0c74656e616e74732f61636d65102b2a280a0461636d65102b1a110a0770726f6365737312001803388080402a03616e6e32060882e2cfaa06",
		"d13f8169a9ec4ed00671f1ed3ce35d30d4e0bed9371601cbaf9c7279ff038809",
	},
}

// TestRecordsOfBefore: they are what they were, byte for byte, and so are the digests of their specs.
func TestRecordsOfBefore(t *testing.T) {
	for _, b := range before {
		data, err := hex.DecodeString(b.record)
		if err != nil {
			t.Fatal(err)
		}
		var m eventv1.Object
		if err := proto.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		o, ok, err := wire.ToObject(&m)
		if err != nil || !ok {
			t.Fatalf("%v, %v", ok, err)
		}
		if got := hex.EncodeToString(wire.FingerprintObject(o).Bytes()); got != b.fingerprint {
			t.Errorf("%s has the fingerprint %s, want %s", o.Key(), got, b.fingerprint)
		}
		if r := o.Release; r != nil && (r.Settings.Decisions != nil || r.Active.Spec != r.Active.With(r.Settings.Spec).Spec) {
			t.Errorf("its spec is %+v", r.Settings.Spec)
		}
		if n := o.Tenant; n != nil && (n.Settings.Decisions != nil || n.Settings.Audit != "") {
			t.Errorf("its settings are %+v", n.Settings)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire.FromObject(o))
		if err != nil || hex.EncodeToString(again) != b.record {
			t.Errorf("%s is written as %x, %v", o.Key(), again, err)
		}
	}
}

// TestRecordsForBefore: software that does not know decision logs reads the same release, and finds the
// same fingerprint. What it drops is all that it does not know.
func TestRecordsForBefore(t *testing.T) {
	r := release()
	r.Settings.Decisions = &script.Decisions{Sample: 0.5, Mask: []string{"body"}}
	m := wire.FromSettings(r.Settings)
	m.Decisions = nil
	without, err := wire.ToSettings(m)
	if err != nil {
		t.Fatal(err)
	}
	old := r
	old.Settings = without
	if old.Settings.Decisions = nil; wire.Fingerprint(old) != wire.Fingerprint(r) {
		t.Error("the fingerprints differ")
	}
}
