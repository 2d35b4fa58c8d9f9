package spool_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/smallfs"
)

// TestAFullDisk: a record that does not fit is refused, no other is lost, and the spool goes on when there
// is room.
func TestAFullDisk(t *testing.T) {
	disk := smallfs.New(t, "4m")
	s := open(t, filepath.Join(disk.Dir, "spool"), 64<<20)
	r := s.Reader("a")
	if err := keep(s, "acme", "first"); err != nil {
		t.Fatal(err)
	}
	disk.Fill(t)
	large := strings.Repeat("x", 10_000)
	for i := range 100 {
		if err := keep(s, "acme", large); err == nil {
			t.Fatalf("a full disk takes record %d", i)
		}
	}
	disk.Free(t)
	want := []string{"first"}
	for i := range 10 {
		want = append(want, fmt.Sprint(i))
		if err := keep(s, "acme", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := take(t, r); !slices.Equal(got, want) {
		t.Errorf("there are %.100q", got)
	}
	files, err := filepath.Glob(filepath.Join(disk.Dir, "spool", "*.records"))
	if err != nil || len(files) > 3 {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}
