package cache

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unique"

	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Release is a live release, ready to be called. It is immutable.
type Release struct {
	Name     script.Name
	Revision script.Revision
	// Runs is the version that a call of the script runs on this agent: the candidate, if
	// that selects the agent, else the release's active version. Nothing runs of a
	// release that is Untried.
	Runs    script.Version
	Pinned  bool
	Enabled bool
	// What Runs runs with.
	Trigger script.Trigger
	Limits  script.Limits // defaults applied
	Config  []byte        // a JSON object; nil means {}
	// OnError is nil for the default, which most have. Nobody changes it.
	OnError *script.OnError

	// Candidate of the release, or nil. Nobody changes it.
	Candidate *script.Candidate
	// Calls of the candidate are counted here, if it is what Runs here; nil otherwise.
	Calls *Counts
	// StepCalls are those of what Runs here in the candidate's step, if the plan compares the
	// candidate with the active version; nil otherwise.
	StepCalls *StepCounts
	// Keyed is the candidate, if the keys of calls decide whether they run it here; nil otherwise. It
	// has the rest of the release, too, and no Keyed of its own.
	Keyed *Release

	keys     byKey
	plan     *script.Plan    // of the release, if it compares or names a key, and applies to the candidate; nil otherwise
	active   *script.Edition // of the release, unless Runs is it; without its source and tests
	limits   script.Limits   // as they were set
	editions []edition
	made     wire.Sum              // its fingerprint when it was made
	counted  wire.Sum              // its fingerprint, as the table's sum has it; guarded by Table.writing
	entry    atomic.Pointer[entry] // of the active program, while it is compiled
}

// edition is what running a retained version takes.
type edition struct {
	number    uint64
	size      int
	key       Key
	spec      script.Digest // zero if the registry does not say it
	specSize  int
	signature string
	vouched   atomic.Pointer[publisher.Trust] // that has verified the signature
	mayRun    atomic.Pointer[publisher.Trust] // that has verified what it runs with, too
}

// NewRelease returns r, which is not deleted, ready to be called where no candidate
// runs: Runs is the active version.
func NewRelease(r script.Release) *Release { return newRelease(r, r.Active, r.Settings.Spec) }

// NewReleaseOn returns r, which is not deleted, ready to be called on the agent: Runs is what
// r.RunsOn says, and Keyed what r.KeysOn does.
func NewReleaseOn(agent script.Agent, r script.Release) *Release {
	live := newRelease(r, r.RunsOn(agent), r.SpecOn(agent))
	if threshold := r.KeysOn(agent); threshold > 0 {
		live.splitByKey(&r, threshold)
	}
	return live
}

func newRelease(r script.Release, runs script.Version, spec script.Spec) *Release {
	live := &Release{
		Name:     r.Name,
		Revision: r.Revision,
		Runs:     interned(runs),
		Pinned:   r.Pinned,
		Enabled:  r.Enabled,
		Trigger:  spec.Trigger,
		Limits:   spec.Limits.OrDefaults(),
		Config:   spec.Config,
		OnError:  onErrorOf(spec),
		limits:   spec.Limits,
		editions: make([]edition, len(r.Retained)),
	}
	if c := r.Candidate; c != nil {
		candidate := *c
		candidate.Version = interned(c.Version)
		live.Candidate = &candidate
		if runs.Number != r.Active.Number {
			live.active, live.Calls = &script.Edition{Version: interned(r.Active), Spec: r.Settings.Spec}, &Counts{}
			live.active.Spec.Tests = nil
		}
		plan := r.Plan()
		if c.Set == nil && (plan.Compares() || plan.Key != "") { // a change set has its plan with it
			live.plan = new(*plan)
		}
		if plan.Compares() && c.Step > 0 && c.Failed == "" {
			live.StepCalls = &StepCounts{Step: c.Step}
		}
	}
	for i, v := range r.Retained {
		e := &live.editions[i]
		e.number, e.size, e.signature, e.spec, e.specSize = v.Number, v.Size, v.Signature, v.Spec, v.SpecSize
		e.key = Key{Engine: intern(v.Engine), Entrypoint: intern(v.Entrypoint), Digest: v.Digest}
	}
	live.made = live.Fingerprint()
	live.counted = live.made
	return live
}

// Fingerprint returns wire.Fingerprint of the release as it is in memory now: not all
// limits are in it. If Keyed is not what it was made as, it is that of Keyed.
func (r *Release) Fingerprint() wire.Sum {
	if k := r.Keyed; k != nil {
		if now := k.Fingerprint(); now != k.made {
			return now
		}
	}
	return wire.Fingerprint(r.Script())
}

// Script returns the release with all that decides what a call does, which is what
// NewRelease needs; the rest, such as authors, is not kept.
func (r *Release) Script() script.Release {
	active := r.activeEdition()
	retained := make([]script.Version, len(r.editions))
	for i := range r.editions {
		retained[i] = r.editions[i].version()
	}
	release := script.Release{
		Name: r.Name, Revision: r.Revision, Active: active.Version, Candidate: r.Candidate, Pinned: r.Pinned, Enabled: r.Enabled, Retained: retained,
		Settings: script.Settings{Spec: active.Spec},
	}
	if r.plan != nil {
		release.Settings.Rollout = *r.plan
	}
	return release
}

// activeEdition returns the release's active version. If what runs here is not the
// candidate that it is said to be, that is returned, so that the fingerprint shows it.
func (r *Release) activeEdition() script.Edition {
	if r.active != nil && r.runsCandidate() {
		return *r.active
	}
	limits := r.limits
	if r.Limits != limits.OrDefaults() {
		limits = r.Limits // what calls get is what counts
	}
	return script.Edition{Version: r.Runs, Spec: r.spec(limits)}
}

// runsCandidate reports whether what runs here is the candidate, and with what its version has.
func (r *Release) runsCandidate() bool {
	c := r.Candidate
	if r.Runs.Number != c.Version.Number || !r.Runs.SameProgram(c.Version) || r.Limits != r.limits.OrDefaults() {
		return false
	}
	if c.Version.Spec.IsZero() { // an older registry has one for all versions
		return true
	}
	spec := r.spec(r.limits)
	spec.Tests = c.Spec.Tests
	return c.Version.With(spec).Spec == c.Version.Spec
}

// spec returns what runs here runs with, with these limits and without its tests.
func (r *Release) spec(limits script.Limits) script.Spec {
	s := script.Spec{Limits: limits, Trigger: r.Trigger, Config: r.Config}
	if r.OnError != nil {
		s.OnError = *r.OnError
	}
	return s
}

// onErrorOf returns the onError of s, or nil if it is the default.
func onErrorOf(s script.Spec) *script.OnError {
	if s.OnError.IsZero() {
		return nil
	}
	return new(s.OnError)
}

// Untried reports whether the script's first version has yet to pass its tests: then
// nothing of it runs, but for the tests.
func (r *Release) Untried() bool {
	return r.Candidate != nil && r.active == nil && r.Candidate.Version.Number == r.Runs.Number
}

// Staged returns the change set whose values a call of the version with the number reads in place of
// the live ones; nil if it reads those.
func (r *Release) Staged(number uint64) *script.Membership {
	if c := r.Candidate; c != nil && c.Set != nil && c.Version.Number == number && len(c.Set.Values) > 0 {
		return c.Set
	}
	return nil
}

// interned returns v with the words that many have.
func interned(v script.Version) script.Version {
	v.Engine, v.Entrypoint = intern(v.Engine), intern(v.Entrypoint)
	return v
}

// intern makes the many copies of few words share their memory.
func intern(s string) string { return unique.Make(s).Value() }

func (e *edition) version() script.Version {
	return script.Version{
		Number: e.number, Size: e.size, Digest: e.key.Digest, Engine: e.key.Engine, Entrypoint: e.key.Entrypoint, Signature: e.signature,
		Spec: e.spec, SpecSize: e.specSize,
	}
}

func (r *Release) edition(number uint64) *edition {
	for i := range r.editions {
		if r.editions[i].number == number {
			return &r.editions[i]
		}
	}
	return nil
}

// Retained returns the program's key of the version with the number.
func (r *Release) Retained(number uint64) (Key, bool) {
	if e := r.edition(number); e != nil {
		return e.key, true
	}
	return Key{}, false
}

// Vouched returns an error if the retained version with the number lacks the signature
// that t asks for. It is verified once.
func (r *Release) Vouched(number uint64, t *publisher.Trust) error {
	e := r.edition(number)
	if t == nil || e == nil || e.vouched.Load() == t {
		return nil
	}
	if err := t.Version(r.Name, e.version()); err != nil {
		return err
	}
	e.vouched.Store(t)
	return nil
}

// MayRun returns an error if no publisher that t asks for has signed what the retained version
// with the number runs with. It is verified once.
func (r *Release) MayRun(number uint64, with Running, t *publisher.Trust) error {
	e := r.edition(number)
	if t == nil || e == nil || with.signed == nil || e.mayRun.Load() == t {
		return nil
	}
	of := r.Script()
	if err := t.Runs(&of, e.version(), *with.signed); err != nil {
		return err
	}
	e.mayRun.Store(t)
	return nil
}

// Numbers returns the numbers of the retained versions, in their order.
func (r *Release) Numbers() []uint64 {
	numbers := make([]uint64, len(r.editions))
	for i := range r.editions {
		numbers[i] = r.editions[i].number
	}
	return numbers
}

// shards of the table: a change copies one of them.
const shards = 256

// Table holds the live releases. Reading takes no lock; it is safe for
// concurrent use.
type Table struct {
	seed    maphash.Seed
	writing sync.Mutex
	live    atomic.Pointer[[shards]map[string]*Release] // by "tenant/name"; immutable
	count   atomic.Int64

	sum        wire.Sum            // of the releases' fingerprints; guarded by writing, as is what follows
	next       int                 // the shard to look at again next
	candidates map[string]*Release // those that have one, by "tenant/name"
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed(), candidates: map[string]*Release{}}
	t.live.Store(&[shards]map[string]*Release{})
	return t
}

// Get returns the live release of the script "tenant/name", or nil. It
// allocates nothing.
func (t *Table) Get(name string) *Release {
	return t.live.Load()[t.shardOf(name)][name]
}

// Revision returns the revision of the live release of the script "tenant/name"; 0
// if there is none.
func (t *Table) Revision(name string) script.Revision {
	if r := t.Get(name); r != nil {
		return r.Revision
	}
	return 0
}

// Names yields the scripts with live releases, each "tenant/name", in no particular
// order.
func (t *Table) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for r := range t.All() {
			if !yield(r.Name.String()) {
				return
			}
		}
	}
}

// Len returns the number of live releases.
func (t *Table) Len() int { return int(t.count.Load()) }

// Update puts releases in place of those with their names, and removes the
// scripts in gone, all at once. A call in flight finishes on the release that it began with.
func (t *Table) Update(put []*Release, gone []script.Name) {
	t.writing.Lock()
	defer t.writing.Unlock()
	before, changed := t.live.Load(), map[uint64]map[string]*Release{}
	replace := func(old, with *Release) {
		if old != nil {
			t.sum.Remove(old.counted)
		}
		if with != nil {
			t.sum.Add(with.counted)
		}
	}
	shard := func(name string) map[string]*Release {
		i := t.shardOf(name)
		if changed[i] == nil {
			if changed[i] = maps.Clone(before[i]); changed[i] == nil {
				changed[i] = map[string]*Release{}
			}
		}
		return changed[i]
	}
	for _, r := range put {
		name := r.Name.String()
		m := shard(name)
		replace(m[name], r)
		r.goOn(m[name])
		m[name] = r
		delete(t.candidates, name)
		if r.Candidate != nil {
			t.candidates[name] = r
		}
	}
	for _, n := range gone {
		name := n.String()
		m := shard(name)
		replace(m[name], nil)
		delete(m, name)
		delete(t.candidates, name)
	}
	after := *before
	for i, m := range changed {
		t.count.Add(int64(len(m) - len(before[i])))
		after[i] = m
	}
	t.live.Store(&after)
}

// Candidates returns the live releases that have a candidate, in no particular order.
func (t *Table) Candidates() []*Release {
	t.writing.Lock()
	defer t.writing.Unlock()
	return slices.AppendSeq(make([]*Release, 0, len(t.candidates)), maps.Values(t.candidates))
}

// Checksum returns the sum of the fingerprints of the live releases, but for the
// scripts left out. Before that it makes the fingerprints of at least `again` of
// them anew, each time of the next ones, or of all if there are no more: so a bit
// that flipped in memory shows in the sum.
func (t *Table) Checksum(again int, leftOut ...string) wire.Sum {
	t.writing.Lock()
	defer t.writing.Unlock()
	if again >= t.Len() {
		t.sum = wire.Sum{} // which may have flipped, too
		for r := range t.All() {
			r.counted = r.Fingerprint()
			t.sum.Add(r.counted)
		}
		again = 0
	}
	for looked := 0; looked < again; t.next = (t.next + 1) % shards {
		m := t.live.Load()[t.next]
		for _, r := range m {
			now := r.Fingerprint()
			t.sum.Remove(r.counted)
			t.sum.Add(now)
			r.counted = now
		}
		looked += len(m)
	}
	sum := t.sum
	for _, name := range leftOut {
		if r := t.Get(name); r != nil {
			sum.Remove(r.counted)
		}
	}
	return sum
}

// Check returns the fingerprint of the live release of the script "tenant/name" as
// it is in memory now, and whether it is what it was when it went live. Without one,
// it returns zero and false.
func (t *Table) Check(name string) (fingerprint wire.Sum, sound bool) {
	r := t.Get(name)
	if r == nil {
		return wire.Sum{}, false
	}
	fingerprint = r.Fingerprint()
	return fingerprint, fingerprint == r.made
}

// All yields the live releases in no particular order.
func (t *Table) All() iter.Seq[*Release] {
	return func(yield func(*Release) bool) {
		for _, m := range t.live.Load() {
			for _, r := range m {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Sorted returns the live releases in order of tenant and name.
func (t *Table) Sorted() []*Release {
	all := slices.AppendSeq(make([]*Release, 0, t.Len()), t.All())
	slices.SortFunc(all, func(a, b *Release) int {
		return cmp.Or(cmp.Compare(a.Name.Tenant, b.Name.Tenant), cmp.Compare(a.Name.Script, b.Name.Script))
	})
	return all
}

func (t *Table) shardOf(name string) uint64 { return maphash.String(t.seed, name) % shards }
