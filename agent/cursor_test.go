package agent

import (
	"log/slog"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTheCursorIsKept: all of it is there after a restart, also what bounds removals.
func TestTheCursorIsKept(t *testing.T) {
	dir, want := t.TempDir(), follow.Cursor{Fleet: "f", Revision: 7, Removals: 6, Withheld: 5, Accepted: 4}
	for again := range 2 {
		disk, loaded, err := store.Open(dir, seal.NewKeyring())
		if err != nil {
			t.Fatal(err)
		}
		s := &state{store: disk, table: cache.NewTable(), tenants: cache.NewTenants(), group: script.GroupAll}
		if again == 0 {
			err = s.SaveCursor(want)
		} else if s.choose(loaded, script.Selector{}, slog.New(slog.DiscardHandler)); s.cursor != want {
			t.Errorf("the cursor is %+v, want %+v", s.cursor, want)
		}
		if err != nil {
			t.Fatal(err)
		}
		disk.Close()
	}
}
