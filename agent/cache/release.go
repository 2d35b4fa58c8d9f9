package cache

import (
	"sync/atomic"
	"unique"

	"github.com/scriptorium-dev/scriptorium/agent/meter"
	"github.com/scriptorium-dev/scriptorium/agent/shadow"
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
	// Decisions are nil for those of the tenant.
	Decisions *script.Decisions
	Library   bool
	built     *built // nil if there is nothing beside the source
	// Personal makes it the personal version of another script, or is nil. Nobody changes it.
	Personal *script.Personal

	// Candidate of the release, or nil. Nobody changes it.
	Candidate *script.Candidate
	// Calls of the candidate are counted here, if it is what Runs here; nil otherwise.
	Calls *Counts
	// StepCalls are those of what Runs here in the candidate's step, if the plan compares the
	// candidate with the active version; nil otherwise.
	StepCalls *StepCounts
	// Split is the candidate, if it runs here for a part of the calls: for those whose keys say so, or
	// in the shadow of some; nil otherwise. It has the rest of the release, too, and no Split of its own.
	Split *Release
	// Shadow is what the calls of Split found, if it runs in the shadow of calls; nil otherwise.
	Shadow *shadow.Counts
	// Found is Shadow, or that of the last shadow step of the candidate; nil if there was none here.
	Found *shadow.Counts
	// Meter is where the calls of the script are counted; nil until one has ended. Who counts them sets it.
	Meter atomic.Pointer[meter.Cell]

	idle            *Counts // of the candidate, if it ran here in an earlier step of the attempt, and does not now
	keys            byKey
	shadowed        uint32          // the threshold of the random numbers of calls that Split shadows
	comparesLatency bool            // see ComparesLatency
	plan            *script.Plan    // of the release, if it compares, names a key or has shadow steps, and applies to the candidate; nil otherwise
	active          *script.Edition // of the release, unless Runs is it; without its source and tests
	limits          script.Limits   // as they were set
	editions        []edition
	made            wire.Sum              // its fingerprint when it was made
	counted         wire.Sum              // its fingerprint, as the table's sum has it; guarded by Table.writing
	chained         [2]event              // in whose chains the table has it; guarded by Table.writing
	entry           atomic.Pointer[entry] // of the active program, while it is compiled
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
// r.RunsOn says, and Split what r.KeysOn or r.ShadowsOn does.
func NewReleaseOn(agent script.Agent, r script.Release) *Release {
	live := newRelease(r, r.RunsOn(agent), r.SpecOn(agent))
	if threshold := r.KeysOn(agent); threshold > 0 {
		live.splitByKey(&r, threshold)
	} else if threshold := r.ShadowsOn(agent); threshold > 0 {
		live.splitShadow(&r, threshold)
	}
	return live
}

func newRelease(r script.Release, runs script.Version, spec script.Spec) *Release {
	live := &Release{
		Name:      r.Name,
		Revision:  r.Revision,
		Runs:      interned(runs),
		Pinned:    r.Pinned,
		Enabled:   r.Enabled,
		Trigger:   spec.Trigger,
		Limits:    spec.Limits.OrDefaults(),
		Config:    spec.Config,
		OnError:   onErrorOf(spec),
		Decisions: spec.Decisions,
		built:     builtOf(spec),
		Library:   spec.Library,
		Personal:  spec.Personal,
		limits:    spec.Limits,
		editions:  make([]edition, len(r.Retained)),
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
		if c.Set == nil && (plan.Compares() || plan.Key != "" || plan.Shadows()) { // a change set has its plan with it
			live.plan = new(*plan)
		}
		if plan.Compares() && c.Step > 0 && c.Failed == "" {
			live.StepCalls = &StepCounts{Step: c.Step}
		}
	}
	for i, v := range r.Retained {
		e := &live.editions[i]
		e.number, e.size, e.signature, e.spec, e.specSize = v.Number, v.Size, v.Signature, v.Spec, v.SpecSize
		e.key = Key{Engine: intern(v.Engine), Entrypoint: intern(v.Entrypoint), Digest: v.Digest, Inputs: v.Inputs}
	}
	live.made = live.Fingerprint()
	live.counted = live.made
	return live
}

// Fingerprint returns wire.Fingerprint of the release as it is in memory now: not all
// limits are in it. If Split is not what it was made as, it is that of Split.
func (r *Release) Fingerprint() wire.Sum {
	if k := r.Split; k != nil {
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

// built is what a version is made of beside its source. Few have any.
type built struct {
	script.Inputs
	artifact string
}

func builtOf(s script.Spec) *built {
	if len(s.Libraries) == 0 && s.Runtime.IsZero() && s.Artifact == "" {
		return nil
	}
	return &built{s.Inputs(), s.Artifact}
}

// Inputs returns what the program of Runs is compiled from beside the source.
func (r *Release) Inputs() script.Inputs {
	if r.built == nil {
		return script.Inputs{}
	}
	return r.built.Inputs
}

// spec returns what runs here runs with, with these limits and without its tests.
func (r *Release) spec(limits script.Limits) script.Spec {
	s := script.Spec{Limits: limits, Trigger: r.Trigger, Config: r.Config, Decisions: r.Decisions, Library: r.Library, Personal: r.Personal}
	if r.built != nil {
		s.Libraries, s.Runtime, s.Artifact = r.built.Libraries, r.built.Runtime, r.built.artifact
	}
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
		Spec: e.spec, SpecSize: e.specSize, Inputs: e.key.Inputs,
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
