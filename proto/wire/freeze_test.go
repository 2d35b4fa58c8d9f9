package wire_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAFrozenCandidateOnTheWire: software that knows no freeze takes the candidate for failed, so
// that old agents neither test nor run it, and old registries do not promote it.
func TestAFrozenCandidateOnTheWire(t *testing.T) {
	one := script.Version{Number: 1, Digest: script.DigestOf([]byte("1")), Engine: "lua"}
	two := script.Version{Number: 2, Digest: script.DigestOf([]byte("2")), Engine: "lua"}
	r := script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 7, Active: one, Latest: 2, Enabled: true, Retained: []script.Version{one, two},
		Candidate: &script.Candidate{Version: two, Attempt: 6, Frozen: `by ann ("incident 12")`},
	}
	m := wire.FromRelease(r)
	if c := m.GetCandidate(); c.GetFailed() != `frozen by ann ("incident 12")` || c.GetThreshold() != 0 {
		t.Errorf("old software reads %v", c)
	}
	got, err := wire.ToRelease(m)
	if err != nil || got.Candidate.Failed != "" || got.Candidate.Frozen != r.Candidate.Frozen || got.CandidateState() != script.CandidateFrozen {
		t.Errorf("it is read as %+v: %v", got.Candidate, err)
	}
}

func TestFreezeRoundTrip(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, f := range []script.Freeze{
		{Author: "ann", Note: "incident 12", Since: at, Until: at.Add(time.Hour), Except: []string{"acme", "team-*/hot-*"}, ChangedAt: at.Add(time.Minute)},
		{Author: "ann", ChangedAt: at, Lifted: true},
		{Unreadable: "garbage"},
	} {
		got, err := wire.ToFreeze(wire.FromFreeze(f))
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%+v is read as %+v: %v", f, got, err)
		}
	}
	for _, m := range []*scriptv1.Freeze{nil, {}, {Author: "ann"}, {Author: "ann", Except: []string{"a/b/c"}, Lifted: true}, {Author: "ann", ChangedAt: &timestamppb.Timestamp{Seconds: 1 << 50}, Lifted: true}} {
		if f, err := wire.ToFreeze(m); err == nil {
			t.Errorf("%v is read as %+v", m, f)
		}
	}
}
