package wire_test

import (
	"encoding/hex"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAgentsGetNoVersions: what agents get of a value are the bytes that registries sent before
// values had versions.
func TestAgentsGetNoVersions(t *testing.T) {
	const before = "0a0461636d651204666c616718072220b8d31e852725afb1e26d53bab6095b2bff1749c9275be13ed1c05a56ed31ec0928023a03616e6e42080880f2d6ca061005"
	content := []byte("on")
	v := script.Value{
		Key: script.ValueKey{Tenant: "acme", Key: "flag"}, Revision: 7, Digest: script.DigestOf(content), Size: len(content),
		Author: "ann", ChangedAt: time.Unix(1767225600, 5), Version: 3,
	}
	sent, err := proto.MarshalOptions{Deterministic: true}.Marshal(wire.FromObject(script.Object{Value: &v}).GetValue())
	if err != nil || hex.EncodeToString(sent) != before {
		t.Errorf("sent %x, %v; want %s", sent, err, before)
	}
	if v.Version != 3 {
		t.Error("the value itself was changed")
	}
}

func TestValueHistoryRoundTrip(t *testing.T) {
	content := []byte("on")
	line := script.ValueLine{
		Revision: 9, Change: script.ChangePut, Version: 2, Digest: script.DigestOf(content), Size: 2, Author: "ann", Note: "why", Time: time.Unix(5, 6).UTC(),
	}
	gone := script.ValueLine{Revision: 10, Change: script.ChangeDelete, Author: "bob", Time: time.Unix(7, 8).UTC()}
	want := script.ValueHistory{Key: script.ValueKey{Tenant: "acme", Key: "flag"}, Latest: 2, Lines: []script.ValueLine{gone, line}}
	got, err := wire.ToValueHistory(wire.FromValueHistory(want))
	if err != nil || got.Key != want.Key || got.Latest != 2 || len(got.Lines) != 2 || got.Lines[0] != gone || got.Lines[1] != line {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for what, spoil := range map[string]func(h *script.ValueHistory, l *script.ValueLine){
		"no key":              func(h *script.ValueHistory, _ *script.ValueLine) { h.Key.Key = "" },
		"no change":           func(_ *script.ValueHistory, l *script.ValueLine) { l.Change = "" },
		"a version too high":  func(_ *script.ValueHistory, l *script.ValueLine) { l.Version = 3 },
		"no version":          func(_ *script.ValueHistory, l *script.ValueLine) { l.Version = 0 },
		"no digest":           func(_ *script.ValueHistory, l *script.ValueLine) { l.Digest = script.Digest{} },
		"an impossible size":  func(_ *script.ValueHistory, l *script.ValueLine) { l.Size = script.MaxValueBytes + 1 },
		"less than no bytes":  func(_ *script.ValueHistory, l *script.ValueLine) { l.Size = -1 },
		"another tenant's ..": func(h *script.ValueHistory, _ *script.ValueLine) { h.Key.Tenant = ".." },
	} {
		h, l := want, line
		spoil(&h, &l)
		h.Lines = []script.ValueLine{l}
		if _, err := wire.ToValueHistory(wire.FromValueHistory(h)); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
}
