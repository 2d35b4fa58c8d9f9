package etcdstore_test

import (
	"crypto/rand"
	"testing"

	"github.com/scriptorium-dev/scriptorium/script"
)

// TestABrokenFloor: nobody is told of a floor that is too low, and everything else goes on.
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
			if err := s.Bury(t.Context(), script.Object{Release: &change.Release}); err != nil {
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
