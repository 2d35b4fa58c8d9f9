package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

func release() script.Release {
	v := script.Version{
		Number: 3, Digest: script.DigestOf([]byte("return 3")), Engine: "lua", Entrypoint: "handle", Size: 8,
		Author: "ann", Note: "three", CreatedAt: time.Unix(1_700_000_000, 5).UTC(),
	}
	return script.Release{
		Name: script.Name{Tenant: "acme", Script: "route"}, Revision: 42,
		Active: v, Latest: 4, Pinned: true, Enabled: true,
		Retained: []script.Version{{Number: 2, Digest: script.DigestOf([]byte("x")), Engine: "lua"}, v},
		Settings: script.Settings{
			Spec: script.Spec{
				Limits:  script.Limits{Instructions: 7, Timeout: time.Second, SourceBytes: 1, StringBytes: 2, ResultBytes: 3},
				Trigger: script.Trigger{Event: "http-request"},
				Config:  []byte(`{"a":1}`),
			},
			HistoryLimit: 5,
		},
		ChangedAt: time.Unix(1_700_000_001, 0).UTC(),
	}
}

// TestPolicies: those that are not known stay what they are, and the registry refuses them.
func TestPolicies(t *testing.T) {
	for sent, want := range map[string]string{"": "", "closed": "", "open": "open", "ajar": "ajar"} {
		s, err := wire.ToSettings(&scriptv1.Settings{OnError: &scriptv1.OnError{Policy: sent}})
		if err != nil || s.OnError.Policy != want {
			t.Errorf("%q is %q, %v", sent, s.OnError.Policy, err)
		}
	}
	if m := wire.FromSettings(script.Settings{}); m.GetOnError() != nil {
		t.Errorf("the default is sent as %v", m.GetOnError())
	}
}

func TestReleaseRoundTrip(t *testing.T) {
	tombstone := script.Release{Name: script.Name{Tenant: "acme", Script: "gone"}, Revision: 43, Latest: 9, Deleted: true}
	denying, open := release(), release()
	denying.Settings.OnError = script.OnError{Status: 429, Body: "later\n"}
	open.Settings.OnError = script.OnError{Policy: script.PolicyOpen}
	recorded, silent := release(), release()
	recorded.Settings.Decisions = &script.Decisions{Sample: 0.25, Errors: true, Mask: []string{"body"}, Fields: []string{"input", "error"}}
	silent.Settings.Decisions = &script.Decisions{}
	ordered := release()
	ordered.Settings.Trigger = script.Trigger{Event: "e", Priority: -5, Match: script.Match{Hosts: []string{"*.a"}, PathPrefixes: []string{"/b"}, Methods: []string{"GET"}, Headers: map[string]string{"x-d": "*", "x-c": "1"}}}
	for _, want := range []script.Release{release(), denying, open, ordered, recorded, silent, tombstone} {
		data, err := proto.Marshal(wire.FromReleaseObject(want))
		if err != nil {
			t.Fatal(err)
		}
		var o eventv1.Object
		if err := proto.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		got, ok, err := wire.ToReleaseObject(&o)
		if err != nil || !ok {
			t.Fatalf("ToReleaseObject: %v, %v", ok, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("came back changed (-want +got):\n%s", diff)
		}
	}
}

func TestAuditEntryRoundTrip(t *testing.T) {
	want := script.AuditEntry{
		Revision: 42, Time: time.Unix(1_700_000_001, 0).UTC(), Name: script.Name{Tenant: "acme", Script: "route"},
		Change: script.ChangePublish, Version: 3, Digest: script.DigestOf([]byte("return 3")),
		Candidate: 4, CandidateDigest: script.DigestOf([]byte("return 4")),
		Author: "ann", Identity: "ci", Peer: "unix", Owner: "cr", Forced: true, Note: "why", Key: "k",
	}
	m := wire.FromAuditEntry(want)
	got, err := wire.ToAuditEntry(m)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v; came back changed (-want +got):\n%s", err, diff)
	}
	m.CandidateDigest = []byte{1}
	if _, err := wire.ToAuditEntry(m); script.KindOf(err) != script.Invalid {
		t.Errorf("a short digest: %v, want Invalid", err)
	}
}

func TestReleaseRefusesNonsense(t *testing.T) {
	for name, spoil := range map[string]func(*eventv1.Object){
		"key of another":     func(o *eventv1.Object) { o.Key = "releases/globex/route" },
		"revision differs":   func(o *eventv1.Object) { o.Revision++ },
		"no tenant":          func(o *eventv1.Object) { o.GetRelease().Tenant = "" },
		"path as a name":     func(o *eventv1.Object) { o.GetRelease().Name = "../../etc" },
		"no active version":  func(o *eventv1.Object) { o.GetRelease().Active = nil },
		"active not kept":    func(o *eventv1.Object) { o.GetRelease().Retained = nil },
		"short digest":       func(o *eventv1.Object) { o.GetRelease().Active.Digest = []byte{1} },
		"digest of another":  func(o *eventv1.Object) { o.GetRelease().Active.Digest = wire.FromDigest(script.DigestOf(nil)) },
		"enormous size":      func(o *eventv1.Object) { o.GetRelease().Active.Size = 1 << 40 },
		"timeout beyond all": func(o *eventv1.Object) { o.GetRelease().Settings.Limits.Timeout.Seconds = 1 << 62 },
	} {
		o := wire.FromReleaseObject(release())
		spoil(o)
		if r, _, err := wire.ToReleaseObject(o); script.KindOf(err) != script.Invalid {
			t.Errorf("%s: %v, %v, want Invalid", name, r, err)
		}
	}
}

func FuzzReleaseObject(f *testing.F) {
	data, err := proto.Marshal(wire.FromReleaseObject(release()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var o eventv1.Object
		if proto.Unmarshal(data, &o) != nil {
			return
		}
		r, ok, err := wire.ToReleaseObject(&o)
		if ok && err == nil && r.Name.Validate() != nil {
			t.Errorf("accepted the name %q", r.Name)
		}
		if err != nil && script.KindOf(err) != script.Invalid {
			t.Errorf("kind of %v", err)
		}
	})
}

func TestStatusCarriesTheError(t *testing.T) {
	for _, kind := range []script.Kind{
		script.NotFound, script.Disabled, script.Script, script.Timeout, script.Limit, script.Overloaded,
		script.Denied, script.Invalid, script.Conflict, script.Unavailable, script.Internal,
	} {
		want := &script.Error{Kind: kind, Field: "source", Message: "no", Line: 3, Column: 4}
		st := wire.ToStatus(want)
		if status.Code(st) == codes.Unknown || status.Code(st) == codes.OK {
			t.Errorf("%s has the code %v", kind, status.Code(st))
		}
		got, ok := errors.AsType[*script.Error](wire.FromStatus(st))
		if !ok || got.Kind != kind || got.Field != want.Field || got.Message != want.Message || got.Line != 3 || got.Column != 4 {
			t.Errorf("%v came back as %+v", want, got)
		}
	}
}

// TestStacks: a stack travels with the error of a call alone, and in its bounds.
func TestStacks(t *testing.T) {
	e := &script.Error{Kind: script.Script, Message: "no"}
	for range script.MaxFrames + 5 {
		e.Stack = append(e.Stack, script.Frame{Function: strings.Repeat("ü", script.MaxFunctionBytes), Line: 7})
	}
	if got := wire.ToError(wire.FromError(e)).Stack; got != nil {
		t.Errorf("outside of calls: %v", got)
	}
	got := wire.ToError(wire.FromCallError(e)).Stack
	if len(got) != script.MaxFrames || got[0].Function != strings.Repeat("ü", script.MaxFunctionBytes/2) || got[0].Line != 7 {
		t.Errorf("in calls: %v", got)
	}
}

func TestStatusWithoutDetail(t *testing.T) {
	for code, kind := range map[codes.Code]script.Kind{
		codes.Unavailable:      script.Unavailable,
		codes.DeadlineExceeded: script.Timeout,
		codes.Unimplemented:    script.Invalid,
		codes.PermissionDenied: script.Denied,
		codes.DataLoss:         script.Internal,
	} {
		if got := script.KindOf(wire.FromStatus(status.Error(code, "x"))); got != kind {
			t.Errorf("%v becomes %s, want %s", code, got, kind)
		}
	}
	if err := wire.FromStatus(status.Error(codes.Canceled, "x")); !errors.Is(err, context.Canceled) || script.KindOf(err) != script.Timeout {
		t.Errorf("a canceled call is %v", err)
	}
	if wire.FromStatus(nil) != nil || wire.ToStatus(nil) != nil {
		t.Error("nil is an error")
	}
	if got := status.Code(wire.ToStatus(context.Canceled)); got != codes.Canceled {
		t.Errorf("a canceled call becomes %v", got)
	}
	if got := status.Code(wire.ToStatus(fmt.Errorf("read: %w", context.DeadlineExceeded))); got != codes.DeadlineExceeded {
		t.Errorf("a call out of time becomes %v", got)
	}
}
