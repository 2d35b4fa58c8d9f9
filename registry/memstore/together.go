package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ChangeSet implements registry.Store.
func (s *Store) ChangeSet(_ context.Context, tenant, name string) (script.ChangeSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := tenant + "/" + name
	if u, ok := s.spoiled[setKey(full)]; ok {
		return script.ChangeSet{}, script.Errorf(script.Internal, "", "%w", &u)
	}
	set, ok := s.sets[full]
	if !ok {
		return script.ChangeSet{}, script.Errorf(script.NotFound, "name", "there is no change set %s: see scriptctl changeset list %s", full, tenant)
	}
	return cloneSet(set), nil
}

// ChangeSets implements registry.Store.
func (s *Store) ChangeSets(_ context.Context, tenant string) (sets []script.ChangeSet, unreadable []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.spoiled {
		if name, ok := strings.CutPrefix(key, setKey(tenant+"/")); ok {
			unreadable = append(unreadable, name)
		}
	}
	slices.Sort(unreadable)
	for full, set := range s.sets {
		if _, spoiled := s.spoiled[setKey(full)]; set.Tenant == tenant && !spoiled {
			sets = append(sets, cloneSet(set))
		}
	}
	slices.SortFunc(sets, func(a, b script.ChangeSet) int { return strings.Compare(a.Name, b.Name) })
	return sets, unreadable, nil
}

// setKey is what Spoil calls the record of a change set.
func setKey(full string) string { return "changesets/" + full }

func cloneSet(set script.ChangeSet) script.ChangeSet {
	set.Scripts, set.Values, set.Plan.Steps = slices.Clone(set.Scripts), slices.Clone(set.Values), slices.Clone(set.Plan.Steps)
	return set
}

// CommitTogether implements registry.Store.
func (s *Store) CommitTogether(ctx context.Context, c registry.Together) (script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tenant, err := s.mayCommitTogether(c)
	if err != nil {
		return 0, err
	}
	var t transaction
	for _, commit := range c.Releases {
		s.apply(&t, commit)
	}
	for _, commit := range c.Values {
		s.applyValue(&t, commit)
	}
	for _, staged := range c.Staged {
		s.putSource(staged.Digest, staged.Content)
		t.announce(staged.Content, len(staged.Content) <= registry.InlineSourceBytes)
	}
	if c.Drop != nil {
		delete(s.sets, tenant+"/"+c.Drop.Name)
		delete(s.spoiled, setKey(tenant+"/"+c.Drop.Name))
	}
	if c.Set != nil {
		set := cloneSet(*c.Set)
		set.Revision = s.last + 1
		s.sets[set.FullName()] = set
		delete(s.spoiled, setKey(set.FullName()))
	}
	if len(c.Releases)+len(c.Values) == 0 { // nobody who watches sees it
		s.last++
		return s.last, nil
	}
	return s.changed(ctx, tenant, t), nil
}

// mayCommitTogether returns the tenant, or an error if a guard does not hold.
func (s *Store) mayCommitTogether(c registry.Together) (tenant string, err error) {
	for _, commit := range c.Releases {
		tenant = commit.Release.Name.Tenant
		if err := s.mayCommit(commit); err != nil {
			return "", err
		}
	}
	for _, commit := range c.Values {
		tenant = commit.Value.Key.Tenant
		if err := s.mayCommitValue(commit); err != nil {
			return "", err
		}
	}
	if c.Set != nil {
		tenant = c.Set.Tenant
		if err := s.setIs(c.Set.FullName(), c.SetGuard); err != nil {
			return "", err
		}
	}
	if c.Drop != nil {
		if err := s.setIs(tenant+"/"+c.Drop.Name, c.Drop.Revision); err != nil {
			return "", err
		}
	}
	if tenant == "" {
		return "", script.Errorf(script.Internal, "", "nothing is to be changed together")
	}
	return tenant, nil
}

// setIs returns a Conflict unless the record of the change set is at the revision.
func (s *Store) setIs(name string, revision script.Revision) error {
	now := s.sets[name].Revision
	if u, ok := s.spoiled[setKey(name)]; ok {
		now = u.Revision
	}
	if now != revision {
		return script.Errorf(script.Conflict, "", "the change set %s is at revision %d, not %d: somebody else changed it first", name, now, revision)
	}
	return nil
}
