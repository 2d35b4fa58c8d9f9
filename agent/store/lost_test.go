package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/script"
)

func isLost(loaded *store.Loaded, tenant string) bool {
	_, lost := loaded.LostSettings()[tenant]
	return lost
}

// TestSettingsThatAreGoneStayLost: a process can die before it has removed the scripts of the tenant, or find a full disk.
func TestSettingsThatAreGoneStayLost(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"removed": func(dir string) error { return os.Remove(filepath.Join(dir, "tenants/acme")) },
		"moved": func(dir string) error {
			return os.Rename(filepath.Join(dir, "tenants/acme"), filepath.Join(dir, "tenants/acme.bak"))
		},
		"moved to a tenant": func(dir string) error {
			return os.Rename(filepath.Join(dir, "tenants/acme"), filepath.Join(dir, "tenants/shop"))
		},
		"removed, next to a file of another program": func(dir string) error {
			must(t, os.WriteFile(filepath.Join(dir, "tenants/.DS_Store"), []byte("icons"), 0o600))
			return os.Remove(filepath.Join(dir, "tenants/acme"))
		},
		"cut off in a copy": func(dir string) error {
			must(t, os.WriteFile(filepath.Join(dir, "tenants/acme.bak"), nil, 0o600))
			return os.Remove(filepath.Join(dir, "tenants/acme"))
		},
		"removed from a folder of software that did not count them": func(dir string) error {
			rewriteCursor(t, dir, func(record map[string]json.RawMessage) { delete(record, "tenants") })
			return os.Remove(filepath.Join(dir, "tenants/acme"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := furnished(t)
			must(t, lose(dir))
			for start, d := range []store.Disk{noRoom{}, store.OSDisk{}, noRoom{}, store.OSDisk{}} {
				s, loaded, err := store.OpenOn(dir, trusted, d)
				must(t, err)
				if !isLost(loaded, "acme") || loaded.Cursor != (store.Cursor{}) {
					t.Errorf("start %d: the settings are not lost; lost is %v", start, loaded.Lost)
				}
				if start == 1 { // it dies before it has removed all
					must(t, s.Commit(store.Batch{Removed: []string{"releases/acme/a"}}))
				}
				must(t, s.Abandon())
			}
			s, _ := open(t, dir)
			must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 60}))
			must(t, s.Close())
			if _, loaded := open(t, dir); isLost(loaded, "acme") || loaded.Cursor.Revision != 60 {
				t.Errorf("after a full snapshot without settings, lost is %v", loaded.Lost)
			}
		})
	}
}

// TestManyLostSettingsStayLost: what else is corrupt does not push out what says whose settings are lost.
func TestManyLostSettingsStayLost(t *testing.T) {
	const many = 10 * store.MaxCorrupt
	dir := furnished(t)
	for i := range many {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("tenants/t%d", i)), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "tenants/acme"), nil, 0o600))
	for start := range 2 {
		s, loaded := open(t, dir)
		if got := len(loaded.LostSettings()); got != many+1 {
			t.Errorf("start %d: the settings of %d tenants are lost", start, got)
		}
		must(t, s.Abandon())
	}
}

// TestSettingsThatWereReplacedAreNotLost: the tenant was unset since, and another file is corrupt.
func TestSettingsThatWereReplacedAreNotLost(t *testing.T) {
	dir := furnished(t)
	must(t, os.WriteFile(filepath.Join(dir, "tenants/acme"), nil, 0o600))
	s, _ := open(t, dir)
	must(t, s.SaveCursor(store.Cursor{Fleet: "f", Revision: 70}))
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, "values/acme/flags"), nil, 0o600))
	for start := range 2 {
		s, loaded := open(t, dir)
		if loaded.Cursor != (store.Cursor{}) || isLost(loaded, "acme") {
			t.Errorf("start %d: at %+v, lost is %v", start, loaded.Cursor, loaded.Lost)
		}
		must(t, s.Abandon())
	}
	kept, err := os.ReadDir(filepath.Join(dir, "corrupt"))
	must(t, err)
	if len(kept) != 2 || !strings.HasSuffix(kept[0].Name(), "tenants-acme") {
		t.Errorf("a person finds %v", kept)
	}
}

// TestSettingsAreOnDiskBeforeScripts: the first snapshot is in files, and a process can die anywhere within it.
func TestSettingsAreOnDiskBeforeScripts(t *testing.T) {
	r := release("a", 10, "source of a")
	name := r.Name.Tenant
	for steps, done := 0, false; !done; steps++ {
		dir := t.TempDir()
		s, _, err := store.OpenOn(dir, trusted, hasty{})
		must(t, err)
		must(t, s.Close())
		d := &faultyDisk{left: 1 << 30, torn: rand.New(rand.NewPCG(1, 1))}
		s, _, err = store.OpenOn(dir, trusted, d)
		must(t, err)
		must(t, s.PutSources([]store.Source{source("source of a")}))
		d.left = steps
		objects := []script.Object{{Release: &r}, value(name+"/flags", 40, "source of a"), tenant(name, 60, 500)}
		done = putAll(s, objects) == nil
		must(t, s.Abandon())
		if _, loaded := open(t, dir); len(loaded.Releases) > 0 && len(loaded.Tenants) == 0 {
			t.Errorf("after %d steps there are scripts without settings", steps)
		}
	}
}
