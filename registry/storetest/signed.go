package storetest

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// testSigned: a version gets another signature, in its release and beside its source.
func (h Harness) testSigned(t *testing.T) {
	s, ctx := h.Open(t), t.Context()
	c := publish(script.Release{}, named(1), "return 1")
	c.Publish.Signature = "first"
	cur := commit(t, s, c)
	v, err := s.Version(ctx, named(1), 1)
	if err != nil || v.Signature != "first" {
		t.Fatalf("published: %+v, %v", v, err)
	}
	v.Signature = "second"
	next := cur
	next.Active.Signature, next.Retained = "second", []script.Version{cur.Retained[0]}
	next.Retained[0].Signature = "second"
	want := commit(t, s, registry.Commit{
		Guard: cur.Revision, Release: next, Signed: &v,
		Entry: script.HistoryEntry{Change: script.ChangeSign, Version: 1, Digest: v.Digest, Author: "ann", Time: v.CreatedAt},
	})
	if got, err := s.Release(ctx, named(1)); err != nil || !same(got, want) || got.Active.Signature != "second" {
		t.Errorf("Release:\n got %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := s.Version(ctx, named(1), 1); err != nil || got != v {
		t.Errorf("Version: %+v, %v; want %+v", got, err, v)
	}
	if source, err := s.Source(ctx, v.Digest); err != nil || string(source) != "return 1" {
		t.Errorf("Source: %q, %v", source, err)
	}
}
