package etcdstore_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestABrokenFloor: the registry announces no floor that is too low, and everything else goes on.
func TestABrokenFloor(t *testing.T) {
	for _, record := range []string{"garbage", "", "9000000000000000000"} {
		prefix := "/" + rand.Text()
		s, c := open(t, prefix), client(t)
		change := requested("gone")
		var err error
		if change.Release.Revision, err = s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		put, err := c.Put(t.Context(), prefix+"/meta/floor", record)
		if err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"before", "after"} {
			snap, err := s.Snapshot(t.Context())
			if err != nil || snap.Floor != script.Revision(put.Header.Revision) {
				t.Fatalf("%q: %s the tombstone is collected the floor is %d, want %d; %v", record, when, snap.Floor, put.Header.Revision, err)
			}
			if err := s.Purge(t.Context(), script.Object{Release: &change.Release}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAStrayBlob: a key that names no digest does not end the listing of the others.
func TestAStrayBlob(t *testing.T) {
	prefix := "/" + rand.Text()
	s := open(t, prefix)
	want, err := s.PutSource(t.Context(), []byte("source"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(t).Put(t.Context(), prefix+"/blobs/", ""); err != nil {
		t.Fatal(err)
	}
	var found []script.Digest
	for blob, err := range s.Blobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, blob.Digest)
	}
	if len(found) != 1 || found[0] != want {
		t.Errorf("found %v, want %v", found, want)
	}
}

// TestABrokenUsage: how much a tenant's values take is counted anew.
func TestABrokenUsage(t *testing.T) {
	for _, record := range []string{"garbage", ""} {
		prefix := "/" + rand.Text()
		s := open(t, prefix)
		r := registry.New(registry.Config{Store: s})
		put := func(key, content string) error {
			_, _, err := r.PutValue(t.Context(), registry.PutValue{Key: script.ValueKey{Tenant: "acme", Key: key}, Content: []byte(content), Author: "ann", By: access.Everybody("unix")})
			return err
		}
		if err := errors.Join(put("a", "1"), put("a", "12345"), put("b", "678")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.DeleteValue(t.Context(), registry.DeleteValue{Key: script.ValueKey{Tenant: "acme", Key: "b"}, Author: "ann", By: access.Everybody("unix")}); err != nil {
			t.Fatal(err)
		}
		if _, err := client(t).Put(t.Context(), prefix+"/usage/acme", record); err != nil {
			t.Fatal(err)
		}
		if err := put("c", "9"); err != nil {
			t.Errorf("%q: %v", record, err)
		}
		data, err := s.DataUsage(t.Context(), script.ValueKey{Tenant: "acme"})
		if err != nil || data.Usage.Bytes != 6 || data.Usage.Values != 2 {
			t.Errorf("%q: %+v, %v; want two values of 6 bytes", record, data.Usage, err)
		}
		if older, err := s.OlderBytes(t.Context(), "acme"); err != nil || older == 0 || data.Usage.Older != older {
			t.Errorf("%q: %+v; want histories of %d bytes, %v", record, data.Usage, older, err)
		}
	}
}

// TestALostRelease: doctor finds a script of which somebody removed the record alone, also if the
// script was deleted and collected once before.
func TestALostRelease(t *testing.T) {
	prefix := "/" + rand.Text()
	s, name := open(t, prefix), script.Name{Tenant: "acme", Script: "route"}
	r := registry.New(registry.Config{Store: s, Checkup: s, Engines: map[string]engine.Checker{"lua": anything{}}})
	w := registry.Write{Name: name, Author: "ann", By: access.Everybody("unix")}
	for again := range 2 {
		if _, err := r.Publish(t.Context(), registry.PublishRequest{Write: w, Source: []byte("source")}); err != nil {
			t.Fatal(err)
		}
		if again == 1 {
			break
		}
		gone, err := r.Delete(t.Context(), registry.DeleteRequest{Write: w})
		if err == nil {
			err = s.Purge(t.Context(), script.Object{Release: &gone.Release})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client(t).Delete(t.Context(), prefix+"/releases/acme/route"); err != nil {
		t.Fatal(err)
	}
	var found []string
	for one, err := range r.Doctor(t.Context(), registry.DoctorRequest{By: access.Everybody("unix")}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, one.Key+": "+one.Reason)
	}
	if want := []string{"releases/acme/route: the record is missing, and 1 of its versions are there"}; !slices.Equal(found, want) {
		t.Errorf("doctor finds %q, want %q", found, want)
	}
}

// TestABrokenFreeze: a record that cannot be read freezes everything, for those who read it and for
// those who watch; a write that took it for none is refused; and it can be replaced.
func TestABrokenFreeze(t *testing.T) {
	for _, record := range []string{"garbage", "", "\x0a\x03ann"} {
		prefix := "/" + rand.Text()
		s := open(t, prefix)
		before, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put, err := client(t).Put(t.Context(), prefix+"/meta/freeze", record)
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Freeze(t.Context())
		if err != nil || f.Unreadable == "" || f.Revision != script.Revision(put.Header.Revision) || !f.On(time.Now()) {
			t.Errorf("%q: %+v, %v", record, f, err)
		}
		snapshot, err := s.Snapshot(t.Context())
		if err != nil || snapshot.Freeze.Unreadable != f.Unreadable {
			t.Errorf("%q: a snapshot has %+v, %v", record, snapshot.Freeze, err)
		}
		for tx, err := range s.Watch(t.Context(), before) {
			if err != nil || tx.Freeze == nil || tx.Freeze.Unreadable != f.Unreadable || !tx.Foreign {
				t.Errorf("%q: the watch yields %+v, %v", record, tx, err)
			}
			break
		}
		if _, err := s.Commit(t.Context(), requested("blind")); script.KindOf(err) != script.Conflict {
			t.Errorf("%q: a write that knows of no freeze: %v", record, err)
		}
		rules := registry.New(registry.Config{Store: s, Engines: map[string]engine.Checker{}})
		if changed, err := rules.Thaw(t.Context(), access.Everybody("unix"), "ann", ""); err != nil || !changed {
			t.Errorf("%q: thawed %v, %v", record, changed, err)
		}
	}
}

// TestAFreezeThatWasCompacted: whoever has not seen it starts from a snapshot, though no registry
// wrote anything else.
func TestAFreezeThatWasCompacted(t *testing.T) {
	prefix := "/" + rand.Text()
	s, c := open(t, prefix), client(t)
	change := requested("first")
	before, err := s.Commit(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	rules := registry.New(registry.Config{Store: s, Engines: map[string]engine.Checker{}})
	if _, err := rules.Freeze(t.Context(), registry.FreezeRequest{By: access.Everybody("unix"), Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	put, err := c.Put(t.Context(), prefix+"-of-others", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(t.Context(), put.Header.Revision); err != nil {
		t.Fatal(err)
	}
	for tx, err := range s.Watch(t.Context(), before) {
		if !errors.Is(err, registry.ErrForgotten) {
			t.Errorf("the watch yields %+v: %v", tx, err)
		}
		break
	}
}
