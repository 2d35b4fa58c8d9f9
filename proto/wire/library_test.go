package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func withLibrary() script.Release {
	lib := script.Library{Name: script.Name{Tenant: "acme", Script: "lib"}, Version: 3, Digest: script.DigestOf([]byte("return {}")), Source: "return {}"}
	spec := script.Spec{Libraries: []script.Library{lib}}
	v := script.Version{Number: 1, Digest: script.DigestOf([]byte("x")), Engine: "lua", Entrypoint: "handle", Size: 1}.With(spec)
	return script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 9, Active: v, Latest: 1, Enabled: true,
		Retained: []script.Version{v}, Settings: script.Settings{Spec: spec},
	}
}

// TestLibrariesRoundTrip: a release carries its libraries, and an answer to a client their names.
func TestLibrariesRoundTrip(t *testing.T) {
	want := withLibrary()
	got, err := wire.ToRelease(wire.FromRelease(want))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v; came back changed (-want +got):\n%s", err, diff)
	}
	short, err := wire.ToRelease(wire.WithoutSources(wire.FromRelease(want)))
	if err != nil || short.Settings.Libraries[0].Source != "" || short.Settings.Libraries[0].Version != 3 || want.Settings.Libraries[0].Source == "" {
		t.Errorf("without sources: %v, %+v", err, short.Settings.Libraries)
	}
}

// TestOldSoftwareRefusesLibraries: software that knows no libraries has no such engine, so it keeps what it runs. Its
// checksum is that of the registry all the same.
func TestOldSoftwareRefusesLibraries(t *testing.T) {
	r := withLibrary()
	m := wire.FromRelease(r)
	if m.GetActive().GetEngine() == "lua" || m.GetRetained()[0].GetEngine() == "lua" {
		t.Error("an old agent would run the version without its libraries")
	}
	old := r // what an old agent makes of the message
	old.Settings.Libraries = nil
	old.Active.Engine, old.Active.Inputs = m.GetActive().GetEngine(), script.Digest{}
	old.Retained = []script.Version{old.Active}
	if wire.Fingerprint(old) != wire.Fingerprint(r) {
		t.Error("an old agent finds a drift at each beacon")
	}
}

// TestLibrariesThatAnOlderRegistryDropped: with a change of the script it drops the libraries. No agent runs the version
// without them.
func TestLibrariesThatAnOlderRegistryDropped(t *testing.T) {
	m := wire.FromRelease(withLibrary())
	m.GetActive().Inputs, m.GetRetained()[0].Inputs, m.GetSettings().Libraries = nil, nil, nil
	r, err := wire.ToRelease(m)
	if err != nil || r.Active.Engine == "lua" || r.Retained[0].Engine == "lua" {
		t.Errorf("%v, agents run it with the engine %q", err, r.Active.Engine)
	}
}
