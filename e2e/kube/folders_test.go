package kube

import (
	"slices"
	"testing"
)

func TestOursIsWhatAListingHasOfScriptorium(t *testing.T) {
	const listing = "/node/run:\ncontainerd\nscriptorium\n\n/node/var/lib:\nkubelet\nscriptorium\nscriptorium-old\n"
	want := []string{"/run/scriptorium", "/var/lib/scriptorium", "/var/lib/scriptorium-old"}
	if got := ours(listing); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ours("/node/run:\n\n/node/var/lib:\nkubelet\n"); len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}
}
