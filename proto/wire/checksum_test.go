package wire_test

import (
	"encoding/hex"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestFingerprintStands: softwares of different ages have to agree on it.
func TestFingerprintStands(t *testing.T) {
	const want = "22d62b5c4fbd943fd4475a35df8e67644d8e31e8946abefb5ee875ec77a6f57a"
	if got := hex.EncodeToString(wire.Fingerprint(release()).Bytes()); got != want {
		t.Errorf("the fingerprint of a release has changed: %s, want %s", got, want)
	}
}

func TestFingerprintTellsReleasesApart(t *testing.T) {
	base := wire.Fingerprint(release())
	for name, change := range map[string]func(*script.Release){
		"tenant":          func(r *script.Release) { r.Name = script.Name{Tenant: "acmer", Script: "oute"} },
		"revision":        func(r *script.Release) { r.Revision++ },
		"active":          func(r *script.Release) { r.Active.Number-- },
		"digest":          func(r *script.Release) { r.Active.Digest[31] ^= 1 },
		"engine":          func(r *script.Release) { r.Active.Engine = "wasm" },
		"entrypoint":      func(r *script.Release) { r.Active.Entrypoint = "" },
		"pinned":          func(r *script.Release) { r.Pinned = false },
		"enabled":         func(r *script.Release) { r.Enabled = false },
		"retained":        func(r *script.Release) { r.Retained = r.Retained[1:] },
		"retained digest": func(r *script.Release) { r.Retained[0].Digest[0] ^= 0x80 },
		"instructions":    func(r *script.Release) { r.Settings.Limits.Instructions++ },
		"timeout":         func(r *script.Release) { r.Settings.Limits.Timeout++ },
		"source bytes":    func(r *script.Release) { r.Settings.Limits.SourceBytes++ },
		"string bytes":    func(r *script.Release) { r.Settings.Limits.StringBytes++ },
		"result bytes":    func(r *script.Release) { r.Settings.Limits.ResultBytes++ },
		"event":           func(r *script.Release) { r.Settings.Trigger.Event += "s" },
		"config":          func(r *script.Release) { r.Settings.Config = []byte(`{"a":2}`) },
		"deleted":         func(r *script.Release) { r.Deleted = true },
	} {
		r := release()
		change(&r)
		if wire.Fingerprint(r) == base {
			t.Errorf("%s: the fingerprint is the same", name)
		}
	}
	same := release()
	same.ChangedAt, same.Owner, same.Active.Note = time.Time{}, "somebody", "else"
	if wire.Fingerprint(same) != base {
		t.Error("what no call depends on changed the fingerprint")
	}
	same.Settings.Trigger.Priority, same.Settings.Trigger.Match = 5, script.Match{Methods: []string{"GET"}} // as is this
	same.Settings.OnError = script.OnError{Policy: script.PolicyOpen}                                       // which older agents do not know
	same.Settings.Decisions = &script.Decisions{Sample: 1}
	if wire.Fingerprint(same) != base {
		t.Error("what older agents drop changed the fingerprint")
	}
}

// TestFingerprintOfLimits: each limit is in the fingerprints, or is named here as left
// out, for the reason that Fingerprint gives.
func TestFingerprintOfLimits(t *testing.T) {
	for _, of := range []struct {
		kind    string
		leftOut []string
		sum     func(script.Limits) wire.Sum
	}{
		{"release", []string{"LogBytes", "Concurrency", "Coroutines", "WasmMemory"}, func(l script.Limits) wire.Sum {
			r := release()
			r.Settings.Limits = l
			return wire.FingerprintObject(script.Object{Release: &r})
		}},
		{"tenant", []string{"Coroutines", "WasmMemory"}, func(l script.Limits) wire.Sum {
			return wire.FingerprintObject(script.Object{Tenant: &script.Tenant{Name: "acme", Settings: script.TenantSettings{Limits: l}}})
		}},
	} {
		limits := reflect.TypeFor[script.Limits]()
		for i := range limits.NumField() {
			var l script.Limits
			switch field := reflect.ValueOf(&l).Elem().Field(i); {
			case field.CanInt():
				field.SetInt(1)
			case field.CanUint():
				field.SetUint(1)
			default:
				field.SetBool(true)
			}
			name := limits.Field(i).Name
			counts, want := of.sum(l) != of.sum(script.Limits{}), !slices.Contains(of.leftOut, name)
			if counts != want {
				t.Errorf("%s in the fingerprint of a %s: %v, want %v", name, of.kind, counts, want)
			}
		}
	}
}

func TestSumDoesNotKnowOrder(t *testing.T) {
	a, b := release(), release()
	b.Name.Script = "other"
	var ab, ba wire.Sum
	ab.Add(wire.Fingerprint(a))
	ab.Add(wire.Fingerprint(b))
	ba.Add(wire.Fingerprint(b))
	ba.Add(wire.Fingerprint(a))
	if ab != ba || ab == (wire.Sum{}) {
		t.Errorf("sums %x and %x", ab, ba)
	}
	got, err := wire.ToSum(ab.Bytes())
	if err != nil || got != ab {
		t.Errorf("ToSum: %x, %v", got, err)
	}
	ab.Remove(wire.Fingerprint(b))
	ab.Remove(wire.Fingerprint(a))
	if ab != (wire.Sum{}) {
		t.Errorf("what was added was not removed: %x", ab)
	}
	if _, err := wire.ToSum([]byte{1}); script.KindOf(err) != script.Invalid {
		t.Errorf("a short sum: %v", err)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	r := release()
	b.ReportAllocs()
	for b.Loop() {
		_ = wire.Fingerprint(r)
	}
}
