package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// LostSettings returns the tenants whose settings were corrupt, or are doubted. If files of settings are gone, it returns
// each tenant that has scripts and no settings, too.
func (l *Loaded) LostSettings() map[string]struct{} {
	tenants := map[string]struct{}{}
	for _, lost := range slices.Concat(l.Lost, l.Doubted) {
		if tenant, ok := strings.CutPrefix(filepath.ToSlash(lost.Path), string(script.Tenants)+"/"); ok {
			tenants[tenant] = struct{}{}
		}
	}
	if !l.anySettings {
		return tenants
	}
	for i := range l.Releases {
		tenants[l.Releases[i].Name.Tenant] = struct{}{}
	}
	for i := range l.Tenants {
		delete(tenants, l.Tenants[i].Name)
	}
	return tenants
}

// missesSettings reports whether the cursor counts settings that are not here, and that no file names that is lost or doubted.
// If the cursor does not count them apart from values, a missing value can be settings.
func (s *Store) missesSettings(record *cursorRecord, lost, doubted []Lost) bool {
	if record == nil || record.Others == nil {
		return false
	}
	known, were, values := s.others.Count, record.Others.Count, true
	if record.Tenants != nil {
		known, were, values = s.tenants, *record.Tenants, false
	}
	for _, l := range slices.Concat(lost, doubted) {
		key, err := s.keyOf(l.Path)
		kind, _, _ := strings.Cut(key, "/")
		counted := script.ObjectKind(kind) == script.Tenants || values && script.ObjectKind(kind) == script.Values
		if err == nil && counted && validKey(key) == nil && !errors.Is(l.Err, errMisplaced) {
			known++
		}
	}
	return known < were
}

// settingsOf returns the tenant whose settings a file in corrupt/ was: see setAside.
func settingsOf(name string) (tenant string, ok bool) {
	_, name, _ = strings.Cut(name, "-") // after the time
	return strings.CutPrefix(name, string(script.Tenants)+"-")
}

func (s *Store) noteSettingsAside(name string) {
	if _, ok := settingsOf(name); ok {
		s.settingsAside[name] = struct{}{}
	}
}

// listSettingsAside notes what earlier loads have set aside.
func (s *Store) listSettingsAside() error {
	aside, err := os.ReadDir(s.path("corrupt"))
	for _, entry := range aside {
		s.noteSettingsAside(entry.Name())
	}
	return err
}

// recallLost adds the settings of tenants that an earlier load has set aside, and that no full snapshot has replaced.
func (s *Store) recallLost(loaded *Loaded) {
	known := loaded.LostSettings()
	for _, name := range slices.Sorted(maps.Keys(s.settingsAside)) {
		tenant, _ := settingsOf(name)
		key := script.Object{Tenant: &script.Tenant{Name: tenant}}.Key()
		_, twice := known[tenant]
		if _, here := s.objects[key]; here || twice {
			continue
		}
		known[tenant] = struct{}{}
		loaded.Lost = append(loaded.Lost, Lost{Path: key, Err: fmt.Errorf("an earlier start has set it aside: corrupt/%s", name)})
	}
}

// settingsReplaced renames the settings that were set aside, so that no load recalls them: a full snapshot has come. What
// cannot be renamed now is tried again with the next cursor.
func (s *Store) settingsReplaced() {
	maps.DeleteFunc(s.settingsAside, func(name string, _ struct{}) bool {
		at, rest, _ := strings.Cut(name, "-")
		err := s.disk.Rename(s.path("corrupt", name), s.path("corrupt", at+"-replaced-"+rest))
		return err == nil || errors.Is(err, fs.ErrNotExist)
	})
}

// maxCorrupt is how many corrupt files are kept for a person to look at, besides those that recallLost needs.
const maxCorrupt = 100

// pruneCorrupt removes the oldest of more than that.
func (s *Store) pruneCorrupt() error {
	kept, err := os.ReadDir(s.path("corrupt"))
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(e os.DirEntry) bool {
		_, needed := s.settingsAside[e.Name()]
		return needed
	})
	for _, old := range kept[:max(0, len(kept)-maxCorrupt)] { // sorted by name, that is by time
		if err := os.RemoveAll(s.path("corrupt", old.Name())); err != nil {
			return err
		}
	}
	return nil
}
