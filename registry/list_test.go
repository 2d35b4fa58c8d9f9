package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// countingReads counts the releases that are read in lists.
type countingReads struct {
	*memstore.Store
	releases int
}

func (c *countingReads) Releases(ctx context.Context, tenant string, after script.Name, limit int) ([]script.Release, []registry.Unreadable, error) {
	page, unreadable, err := c.Store.Releases(ctx, tenant, after, limit)
	c.releases += len(page)
	return page, unreadable, err
}

// TestAListReadsLittleMoreThanItReturns: releases can have 128 KiB each. All that a page may name
// would take the memory that the registry has.
func TestAListReadsLittleMoreThanItReturns(t *testing.T) {
	b := newBench(t)
	config := script.Settings{Spec: script.Spec{Config: []byte(`{"a":"` + strings.Repeat("x", 60<<10) + `"}`)}}
	const scripts = 400
	for i := range scripts {
		b.publish("x", settings(config), func(r *registry.PublishRequest) { r.Name.Script = fmt.Sprintf("s%03d", i) })
	}
	store := &countingReads{Store: b.store}
	r := registry.New(registry.Config{Store: store})
	seen, token := 0, ""
	for {
		store.releases = 0
		page, err := r.List(t.Context(), registry.ListRequest{By: everybody, PageSize: registry.MaxPageSize, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, release := range page.Releases {
			if want := fmt.Sprintf("s%03d", seen); release.Name.Script != want {
				t.Fatalf("the list goes on with %s, want %s", release.Name, want)
			}
			seen++
		}
		if most := len(page.Releases) + 50; store.releases > most {
			t.Errorf("a page of %d scripts reads %d, want %d at most", len(page.Releases), store.releases, most)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if seen != scripts {
		t.Errorf("the list has %d scripts, want %d", seen, scripts)
	}
}
