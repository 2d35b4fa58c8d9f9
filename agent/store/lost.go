package store

import (
	"fmt"
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

// recallLost adds the settings of tenants that an earlier load has set aside, and that no full snapshot has replaced.
func (s *Store) recallLost(loaded *Loaded) error {
	aside, err := os.ReadDir(s.path("corrupt"))
	if err != nil {
		return err
	}
	known := loaded.LostSettings()
	for _, entry := range aside {
		_, name, _ := strings.Cut(entry.Name(), "-") // after the time: see setAside
		tenant, ok := strings.CutPrefix(name, string(script.Tenants)+"-")
		if !ok {
			continue
		}
		key := script.Object{Tenant: &script.Tenant{Name: tenant}}.Key()
		_, twice := known[tenant]
		if _, here := s.objects[key]; here || twice {
			continue
		}
		known[tenant] = struct{}{}
		loaded.Lost = append(loaded.Lost, Lost{Path: key, Err: fmt.Errorf("an earlier start has set it aside: corrupt/%s", entry.Name())})
	}
	return nil
}
