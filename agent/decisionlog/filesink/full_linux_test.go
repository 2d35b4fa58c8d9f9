package filesink_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/smallfs"
)

// TestAFullDisk: no part of a record stays, and the sink goes on when there is room.
func TestAFullDisk(t *testing.T) {
	disk := smallfs.New(t, "4m")
	path := filepath.Join(disk.Dir, "decisions.jsonl")
	sink := must(t, "file:"+path)
	line := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	write(t, sink, line)
	disk.Fill(t)
	for range 3 {
		if err := sink.Write(t.Context(), [][]byte{[]byte(line), []byte(line)}); err == nil {
			t.Fatal("a full disk takes a record")
		}
		if got := read(t, path); got != line+"\n" {
			t.Fatalf("the file has %d bytes, want those of one record", len(got))
		}
	}
	disk.Free(t)
	write(t, sink, "last")
	if got := read(t, path); got != line+"\nlast\n" {
		t.Errorf("the file has %d bytes, and ends in %q", len(got), got[len(got)-10:])
	}
}
