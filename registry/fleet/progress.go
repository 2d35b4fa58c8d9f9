package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// progress is how far one release has come.
type progress struct {
	release script.Release
	// other is the key of an object that is no release: it is among the order alone, so
	// that agents are known to lack it, and has the release's tenant, revision and time.
	other string
	entry *entry // of the catalog; nil of one that is no release
	// since is the first release that is known to have the active version of this one.
	since script.Revision
	// replaced: the script has a newer release, or is gone.
	replaced bool
	// waited: it is among the pending.
	waited bool
	// Of a release that is pending: the agents that it is live on, and how long that
	// took.
	measured slots
	times    *times
	// rollout is how it converged, once it did: as it is remembered, or else as it
	// was measured here.
	rollout *script.Rollout
}

// Reset implements registry.Projection.
func (f *Fleet) Reset(s registry.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id != s.Fleet {
		f.start(s.Fleet, s.Head)
	}
	before := f.scripts
	f.scripts = make(map[script.Name]*progress, len(s.Releases))
	f.order, f.pending, f.catalog = order{}, nil, catalog{}
	clear(f.others) // who is behind from before the snapshot shows by the releases
	byAge := func(a, b script.Release) int { return cmp.Compare(a.Revision, b.Revision) }
	for _, r := range slices.SortedFunc(slices.Values(append(f.lost(s, before), s.Releases...)), byAge) {
		p := before[r.Name]
		if p == nil || p.release.Revision != r.Revision || !p.release.ChangedAt.Equal(r.ChangedAt) { // a restore may use revisions again
			f.track(r)
			continue
		}
		f.scripts[r.Name] = p
		f.catalog.track(p, nil)
		f.order.add(p)
		if p.waited {
			f.pending = append(f.pending, p)
		}
	}
	clear(f.unreadable)
	f.mark(s.Unreadable)
	clear(f.audits)
	for i := range s.Tenants {
		f.audit(&s.Tenants[i])
	}
	for name, p := range before {
		p.replaced = f.scripts[name] != p
		if c := f.candidacies[name]; c != nil && f.scripts[name] == nil {
			c.end()
			delete(f.candidacies, name)
		}
	}
	f.catalog.merged()
	f.head, f.freeze, f.frozen = s.Head, s.Freeze, s.Freeze.On(f.now())
	f.rewind()
	f.catchUp()
	f.markDirty(0, never)
	f.settle(f.now())
	f.touch()
}

// rewind marks agents as unknown that report a later revision than the registry's head. The
// store was restored from a backup, and such agents ignore what is published since.
func (f *Fleet) rewind() {
	for name, a := range f.agents {
		if !a.unknown && a.report.Activated > f.head {
			f.disconnect(a)
			f.note(name)
		}
	}
}

// lost returns the scripts whose records cannot be read, and of which the state does not
// say what they were: as they were known, or else as tombstones.
func (f *Fleet) lost(s registry.State, known map[script.Name]*progress) []script.Release {
	var lost []script.Release
	for i := range s.Unreadable {
		name, ok := s.Unreadable[i].Script()
		if !ok || s.Unreadable[i].Last != nil {
			continue
		}
		r := script.Release{Name: name, Deleted: true}
		if p := known[name]; p != nil {
			r = p.release
		}
		lost = append(lost, r)
	}
	return lost
}

// mark notes the objects whose records cannot be read.
func (f *Fleet) mark(unreadable []registry.Unreadable) {
	for i := range unreadable {
		u := &unreadable[i]
		f.unreadable[u.Key] = *u
		if name, ok := u.Script(); ok && f.scripts[name] == nil {
			f.track(script.Release{Name: name, Deleted: true})
		}
	}
}

// unreadableScript returns why the record of the script cannot be read; nil if it can.
func (f *Fleet) unreadableScript(name script.Name) *registry.Unreadable {
	if len(f.unreadable) == 0 {
		return nil
	}
	u, ok := f.unreadable[script.Object{Release: &script.Release{Name: name}}.Key()]
	if !ok {
		return nil
	}
	return &u
}

// start forgets another fleet.
func (f *Fleet) start(fleet string, head script.Revision) {
	f.id, f.base = fleet, head
	clear(f.agents)
	clear(f.departed)
	clear(f.ahead)
	clear(f.usage)
	f.queued, f.total = nil, usage{}
	clear(f.foreign)
	clear(f.failing)
	clear(f.lagging)
	clear(f.scripts)
	clear(f.others)
	clear(f.unreadable)
	clear(f.groups)
	clear(f.following)
	clear(f.candidacies)
	clear(f.early)
	f.catalog = catalog{}
	f.labelings++
	f.connected, f.bySlot, f.byName, f.freeSlots = 0, nil, nil, nil
	f.memory.forget()
}

// Apply implements registry.Projection.
func (f *Fleet) Apply(t registry.Transaction) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range t.Releases {
		f.track(r)
	}
	for o := range t.Objects() {
		delete(f.unreadable, o.Key())
	}
	f.mark(t.Unreadable)
	for o := range t.Objects() {
		if o.Release == nil {
			f.trackOther(o)
		}
	}
	if len(f.catalog.fresh) >= manyFresh {
		f.catalog.merged()
	}
	f.head = max(f.head, t.Revision)
	f.catchUp()
	f.settle(f.now())
	f.touch()
}

// Frozen implements registry.Freezing.
func (f *Fleet) Frozen(freeze script.Freeze) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freeze, f.frozen = freeze, freeze.On(f.now())
	f.touch()
}

// trackOther replaces what is known of an object that is no release by a new edition.
func (f *Fleet) trackOther(o script.Object) {
	if o.Tenant != nil {
		f.audit(o.Tenant)
	}
	key := o.Key()
	if old := f.others[key]; old != nil {
		old.replaced = true
		f.order.dropped()
	}
	f.others[key] = &progress{
		other:   key,
		release: script.Release{Name: script.Name{Tenant: o.TenantName()}, Revision: o.Revision(), ChangedAt: o.ChangedAt()},
	}
	f.order.add(f.others[key])
}

// track replaces what is known of a script by a new release of it.
func (f *Fleet) track(r script.Release) {
	old := f.scripts[r.Name]
	if old != nil && old.release.Revision >= r.Revision {
		return
	}
	p := &progress{release: r, since: r.Revision, rollout: f.memory.rollout(r.Name, r.Revision)}
	if old != nil && !old.release.Deleted && !old.release.Untried() && old.release.Active.Number == r.Active.Number {
		p.since = old.since
	}
	f.scripts[r.Name] = p
	f.catalog.track(p, old)
	f.order.add(p)
	f.trackCandidate(&r)
	if old != nil {
		f.replace(old)
	}
	if r.Revision <= f.base || p.rollout != nil {
		return // when it came to the agents is not known, or was found out before
	}
	f.await(p)
	// Agents follow the same feed: some may have reported the release before it
	// was seen here.
	if f.reachedBy(p) == 0 {
		return
	}
	f.markDirty(r.Revision-1, r.Revision)
	for _, a := range f.agents {
		if !a.unknown && a.report.Activated >= r.Revision {
			f.measure(p, a, a.live(p.release.Revision))
		}
	}
}

// replace forgets a release that was replaced, or is gone.
func (f *Fleet) replace(p *progress) {
	p.replaced = true
	f.order.dropped()
	// Releases of one transaction have one revision.
	i, _ := slices.BinarySearchFunc(f.pending, p.release.Revision, byRevision)
	for ; i < len(f.pending) && f.pending[i].release.Revision == p.release.Revision; i++ {
		if f.pending[i] == p {
			f.pending = slices.Delete(f.pending, i, i+1)
			break
		}
	}
	p.conclude()
}

// conclude ends the measurement.
func (p *progress) conclude() { p.waited, p.measured, p.times = false, nil, nil }

// dropTombstones forgets the scripts that were deleted long ago, and other objects that
// have not changed for as long.
func (f *Fleet) dropTombstones(now time.Time) {
	for _, p := range f.order.list {
		if now.Sub(p.release.ChangedAt) < f.cfg.TombstonesFor {
			return // what comes after it is younger still
		}
		if p.other != "" && !p.replaced {
			p.replaced = true
			delete(f.others, p.other)
			f.order.dropped()
		}
		if !p.replaced && f.isGone(p) {
			delete(f.scripts, p.release.Name)
			f.catalog.drop(p)
			f.replace(p)
			f.noteRollout(p.release.Name)
		}
	}
}

func byRevision(p *progress, r script.Revision) int { return cmp.Compare(p.release.Revision, r) }

func (f *Fleet) await(p *progress) {
	p.waited, p.times = true, &times{}
	i, _ := slices.BinarySearchFunc(f.pending, p.release.Revision, byRevision)
	f.pending = slices.Insert(f.pending, i, p)
}

// passed measures the releases that the agent has activated above from.
func (f *Fleet) passed(a *agent, from script.Revision) {
	i, _ := slices.BinarySearchFunc(f.pending, from+1, byRevision)
	for _, p := range f.pending[i:] {
		if p.release.Revision > a.report.Activated {
			return
		}
		f.measure(p, a, a.live(p.release.Revision))
	}
}

// recovered notes that the agent got over its failure of the script, of which it
// last said then.
func (f *Fleet) recovered(a *agent, name script.Name, failed time.Time) {
	p := f.scripts[name]
	if p != nil && p.waited && a.report.Activated >= p.release.Revision {
		live := a.live(p.release.Revision)
		if !live.After(failed) {
			live = a.heard // that was the failure
		}
		f.measure(p, a, live)
		f.markDirty(p.release.Revision-1, p.release.Revision)
	}
}

// measure notes that the release is live on the agent since then, if it follows it and has
// not failed it, and its process does not lag.
func (f *Fleet) measure(p *progress, a *agent, live time.Time) {
	if p.measured.has(a.slot) || !a.group.selector.Matches(p.release.Name.Tenant) || a.couldNot(&p.release) || a.lags(&p.release) {
		return
	}
	p.measured.add(a.slot)
	took := max(0, live.Sub(p.release.ChangedAt))
	p.times.add(a.report.Agent, took)
	f.cfg.Activated(took)
}

// span is a range of revisions: above the first, up to the second.
type span struct{ above, upTo script.Revision }

// markDirty says that pending releases in the range may have converged.
func (f *Fleet) markDirty(above, upTo script.Revision) {
	switch {
	case upTo <= above:
	case f.dirty == span{}:
		f.dirty = span{above, upTo}
	default:
		f.dirty = span{min(f.dirty.above, above), max(f.dirty.upTo, upTo)}
	}
}

// settle finds the releases that have converged by now.
func (f *Fleet) settle(now time.Time) {
	if f.dirty == (span{}) || !f.gathered(now) {
		return
	}
	dirty := f.dirty
	f.dirty = span{}
	from, _ := slices.BinarySearchFunc(f.pending, dirty.above+1, byRevision)
	kept := from
	next := from
	for ; next < len(f.pending) && f.pending[next].release.Revision <= dirty.upTo; next++ {
		switch p := f.pending[next]; {
		case !f.everywhere(p):
			f.pending[kept] = p
			kept++
		case p.release.Candidate != nil:
			p.conclude() // it is everywhere, and yet two versions are
		default:
			f.converge(p, now)
		}
	}
	f.pending = slices.Delete(f.pending, kept, next)
}

// everywhere reports whether all connected agents that follow the release have
// activated it, and whether there is one.
func (f *Fleet) everywhere(p *progress) bool {
	connected := 0
	for _, g := range f.followers(p.release.Name.Tenant) {
		if g.lowest() < p.release.Revision {
			return false
		}
		connected += g.levels.total()
	}
	if connected == 0 {
		return false
	}
	for range f.without(p) {
		return false
	}
	return true
}

// reachedBy counts the connected agents that follow the release and are past it.
func (f *Fleet) reachedBy(p *progress) int {
	n := 0
	for _, g := range f.followers(p.release.Name.Tenant) {
		n += g.levels.atLeast(p.release.Revision)
	}
	return n
}

func (f *Fleet) converge(p *progress, now time.Time) {
	t := p.times
	if p.rollout == nil { // no other replica was first
		p.rollout = &script.Rollout{
			Revision: p.release.Revision, Agents: t.count,
			Median: t.quantile(50), P99: t.quantile(99), Slowest: t.slowest, SlowestAgent: t.agent,
			ConvergedAt: now.UTC(),
		}
		f.noteRollout(p.release.Name)
	}
	p.conclude()
	f.cfg.Converged(p.release.Name, t.slowest)
}
