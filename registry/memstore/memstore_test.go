package memstore_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/storetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open:   func(*testing.T) registry.Store { return memstore.New() },
		Reopen: func(_ *testing.T, s registry.Store) registry.Store { return s },
		Compact: func(_ *testing.T, s registry.Store, upTo script.Revision) {
			s.(*memstore.Store).Compact(upTo)
		},
		Spoil: func(_ *testing.T, s registry.Store, key, _ string, forgets bool) {
			s.(*memstore.Store).Spoil(key, forgets)
		},
		Lose: func(_ *testing.T, s registry.Store, key string) { s.(*memstore.Store).Lose(key) },
	})
}
