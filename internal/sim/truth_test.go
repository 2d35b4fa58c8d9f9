package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/script"
)

// truth is the store, and the memory of all that was ever committed to it.
type truth struct {
	*memstore.Store
	groups  groupTable
	memos   memoTable
	objects objectTruth // but for releases

	mu      sync.Mutex
	commits []commit
	byName  map[script.Name][]commit // oldest first

	together []madeTogether // oldest first
	halves   []string       // of change sets, that were committed
}

// commit is one transaction.
type commit struct {
	revision script.Revision
	release  script.Release
	sum      wire.Sum // of the release
	note     string   // of the write: its number
}

func newTruth() *truth {
	return &truth{
		Store:  memstore.New(),
		groups: groupTable{groups: map[string]script.Selector{}},
		byName: map[script.Name][]commit{},
	}
}

// Commit implements registry.Store. Nobody can see a commit before it is remembered.
func (t *truth) Commit(ctx context.Context, c registry.Commit) (script.Revision, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	revision, err := t.Store.Commit(ctx, c)
	if err != nil {
		return 0, err
	}
	r := c.Release
	r.Revision = revision
	t.remember(r, c.Entry.Note)
	return revision, nil
}

// remember is called with t.mu held.
func (t *truth) remember(r script.Release, note string) {
	made := commit{revision: r.Revision, release: r, sum: wire.Fingerprint(r), note: note}
	t.commits = append(t.commits, made)
	t.byName[r.Name] = append(t.byName[r.Name], made)
}

// compact forgets all transactions: only those who have seen them can go on.
func (t *truth) compact() {
	head, _ := t.Head(context.Background()) // never fails
	t.Compact(head)
}

// head is the revision of the last commit that touched what the selector selects.
func (t *truth) head(tenants script.Selector) script.Revision {
	t.mu.Lock()
	defer t.mu.Unlock()
	head := t.objects.head(tenants)
	for _, c := range slices.Backward(t.commits) {
		if tenants.Matches(c.release.Name.Tenant) {
			return max(head, c.revision)
		}
	}
	return head
}

// find returns the commit of the script with the revision.
func (t *truth) find(name script.Name, revision script.Revision) (commit, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range slices.Backward(t.byName[name]) {
		if c.revision == revision {
			return c, true
		}
	}
	return commit{}, false
}

// asOf returns the commit that made the script what it was at the revision.
func (t *truth) asOf(name script.Name, revision script.Revision) (commit, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range slices.Backward(t.byName[name]) {
		if c.revision <= revision {
			return c, true
		}
	}
	return commit{}, false
}

// deletedAfter returns the first revision above the given one at which the script
// was deleted.
func (t *truth) deletedAfter(name script.Name, revision script.Revision) (script.Revision, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byName[name] {
		if c.revision > revision && c.release.Deleted {
			return c.revision, true
		}
	}
	return 0, false
}

// everLatest reports whether the source was that of the script's latest version once.
func (t *truth) everLatest(name script.Name, digest script.Digest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.byName[name], func(c commit) bool {
		latest, ok := c.release.Retains(c.release.Latest)
		return ok && latest.Digest == digest
	})
}

// names returns all scripts that ever were.
func (t *truth) names() []script.Name {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := make([]script.Name, 0, len(t.byName))
	for name := range t.byName {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b script.Name) int { return slices.Compare([]byte(a.String()), []byte(b.String())) })
	return names
}

// noted returns the commits of the write with the number.
func (t *truth) noted(note string) []commit {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []commit
	for _, c := range t.commits {
		if c.note == note {
			found = append(found, c)
		}
	}
	return found
}

// verify finds out whether the store has kept what was committed.
func (t *truth) verify(ctx context.Context) error {
	for _, name := range t.names() {
		last, _ := t.asOf(name, 1<<62)
		now, err := t.Release(ctx, name)
		if err != nil {
			return fmt.Errorf("%s is lost: %w", name, err)
		}
		if purged := now.Revision == 0; purged && last.release.Deleted && now.Latest == last.release.Latest {
			continue
		}
		if now.Revision != last.revision || wire.Fingerprint(now) != last.sum {
			return fmt.Errorf("%s is at revision %d, though %d was the last commit", name, now.Revision, last.revision)
		}
		for _, v := range now.Retained {
			if _, err := t.Source(ctx, v.Digest); err != nil {
				return fmt.Errorf("the source of %s@%d is lost: %w", name, v.Number, err)
			}
		}
	}
	return t.verifyObjects(ctx)
}
