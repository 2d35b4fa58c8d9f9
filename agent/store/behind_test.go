package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
)

// TestBehindUntilACursorIsSaved: whoever loads the folder again before the registry has answered
// may be behind as well.
func TestBehindUntilACursorIsSaved(t *testing.T) {
	dir := journaled(t)
	unsynced(t, dir)
	path := filepath.Join(dir, "journal")
	data, err := os.ReadFile(path)
	must(t, err)
	salt := data[8:24]
	clear(data[bytes.LastIndex(data[:bytes.LastIndex(data, salt)], salt)+99:]) // in the last change
	must(t, os.WriteFile(path, data, 0o600))
	for range 3 {
		if !loadedIs(t, dir, "a@40 b@20", 45).Behind {
			t.Error("nothing is behind")
		}
	}
	s, _ := open(t, dir)
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
	must(t, s.Abandon())
	if loadedIs(t, dir, "a@40 b@20", 60).Behind {
		t.Error("a folder may be behind although its cursor was saved")
	}
}
