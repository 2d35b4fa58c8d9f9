package etcdstore_test

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// A content that is larger than a request to etcd comes back whole, and the collector removes all of it.
func TestLargeContents(t *testing.T) {
	s := open(t, "/"+rand.Text())
	content := make([]byte, script.MaxArtifactBytes)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	digest, err := s.PutSource(t.Context(), content)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Source(t.Context(), digest); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("Source: %d bytes, %v", len(got), err)
	}
	found, err := s.Sources(t.Context(), []script.Digest{digest})
	if err != nil || len(found) != 1 || !bytes.Equal(found[0].Content, content) {
		t.Fatalf("Sources: %d, %v", len(found), err)
	}
	var blobs []registry.Blob
	for b, err := range s.Blobs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, b)
	}
	if len(blobs) != 1 || blobs[0].Digest != digest {
		t.Fatalf("Blobs: %v", blobs)
	}
	if ok, err := s.Discard(t.Context(), blobs[0]); err != nil || !ok {
		t.Fatalf("Discard: %v, %v", ok, err)
	}
	if _, err := s.Source(t.Context(), digest); script.KindOf(err) != script.NotFound {
		t.Errorf("after the collector: %v", err)
	}
	for b, err := range s.Blobs(t.Context()) {
		t.Errorf("left: %v, %v", b, err)
	}
}

// A content that looks like the index of chunks is one all the same.
func TestContentLikeAnIndex(t *testing.T) {
	s := open(t, "/"+rand.Text())
	content := []byte("scriptorium: content in chunks 2")
	digest, err := s.PutSource(t.Context(), content)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Source(t.Context(), digest); err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %q, %v", got, err)
	}
}
