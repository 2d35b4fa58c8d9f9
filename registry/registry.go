// Package registry holds the rules of the registry: what publishing, pinning,
// rolling back and deleting do to a release, and the feed of changes that follows
// from them.
//
// It declares what it needs: a Store that keeps the state, and a Publisher that
// carries the feed. Each write is decided by a pure function of the release as it
// is, and then committed in one transaction guarded by the release's revision, so
// that two writers never lose an update.
package registry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config is what a Registry is made of.
type Config struct {
	// Store keeps the state.
	Store Store
	// Checkup is the same store's; nil if it cannot be checked.
	Checkup Checkup
	// Copies asks agents for what the store has lost, and Trusted believes what this registry
	// signs; both are nil if there are no agents.
	Copies  Copies
	Trusted *seal.Keyring
	// Recent, if not nil, follows the store, and saves writes most of their reads.
	Recent *Recent
	// Engines check sources before they are stored, by their names.
	Engines map[string]engine.Checker
	// DefaultEngine is the engine of a publish that names none; "lua" if empty.
	DefaultEngine string
	// Publishers, if not nil, say whose signatures the scripts of a tenant need. Agents have
	// their own word on that: here it is so that a mistake shows when it is made.
	Publishers *publisher.Roots
	// Gates are those that plans may ask; none if nil.
	Gates Gates
	// Artifacts fetches sources; publishes with an artifact are refused if nil.
	Artifacts Artifacts
	// Clock tells the time of changes; time.Now if nil.
	Clock func() time.Time
	// Space, if not nil, returns an error while the store has no room for more. It is
	// asked before each write that takes room; deletes and rollbacks go on.
	Space func() error
	// OnWrite, if not nil, is called at the end of each write with the requested
	// change and its outcome. It must not block.
	OnWrite func(change script.Change, outcome Outcome)
	// OnQuota, if not nil, is called when a write is refused for a quota of its tenant, or brings the tenant
	// near it. It must not block.
	OnQuota func(QuotaNews)
}

// Artifacts fetches sources from elsewhere.
type Artifacts interface {
	// Fetch returns the source that the reference names. Errors name the field artifact.
	Fetch(ctx context.Context, reference, engine string) ([]byte, error)
}

// Outcome is how a write ended.
type Outcome string

// The outcomes.
const (
	Changed   Outcome = "changed"   // committed
	Unchanged Outcome = "unchanged" // all was so already, by the same request even, or a dry run
	Refused   Outcome = "refused"   // the request is to blame
	Conflict  Outcome = "conflict"  // somebody else was first
	Failed    Outcome = "failed"    // the registry or its store is to blame
)

// Registry writes and reads scripts. It keeps no state of its own but sources, which never
// change, and takes no word of Recent but what the store confirms: any number of registries
// may share a store. It is safe for concurrent use.
//
// Its errors are *script.Error: Invalid with the field for bad input, Denied for what
// the caller may not do, Script for a source that does not compile, NotFound,
// Conflict, and Unavailable when the store cannot be reached.
type Registry struct {
	store         Store
	checkup       Checkup
	copies        Copies
	artifacts     Artifacts
	trusted       *seal.Keyring
	sources       *sources
	recent        *Recent
	engines       map[string]engine.Checker
	defaultEngine string
	publishers    *publisher.Roots
	gates         Gates
	now           func() time.Time
	onWrite       func(script.Change, Outcome)
	onQuota       func(QuotaNews)
	near          near
	rates         *rates
	space         func() error
	importing     chan struct{} // has room for as many imports as may run at a time
}

// maxImports run at a time: each may hold maxPendingBytes of sources.
const maxImports = 2

// New returns a registry over cfg.Store.
func New(cfg Config) *Registry {
	r := &Registry{
		store:         cfg.Store,
		checkup:       cfg.Checkup,
		copies:        cfg.Copies,
		artifacts:     cfg.Artifacts,
		trusted:       cfg.Trusted,
		sources:       newSources(cfg.Store),
		recent:        cfg.Recent,
		engines:       maps.Clone(cfg.Engines),
		defaultEngine: cfg.DefaultEngine,
		publishers:    cfg.Publishers,
		gates:         cfg.Gates,
		now:           cfg.Clock,
		onWrite:       cfg.OnWrite,
		onQuota:       cfg.OnQuota,
		near:          near{quotas: map[tenantQuota]bool{}},
		rates:         newRates(),
		space:         cfg.Space,
		importing:     make(chan struct{}, maxImports),
	}
	if r.defaultEngine == "" {
		r.defaultEngine = "lua"
	}
	if r.gates == nil {
		r.gates = noGates{}
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.space == nil {
		r.space = func() error { return nil }
	}
	if r.onWrite == nil {
		r.onWrite = func(script.Change, Outcome) {}
	}
	if r.onQuota == nil {
		r.onQuota = func(QuotaNews) {}
	}
	return r
}

func outcomeOf(d decision, dry bool, err error) Outcome {
	switch script.KindOf(err) {
	case "":
		if d.changed && !dry && !d.repeated {
			return Changed
		}
		return Unchanged
	case script.Conflict:
		return Conflict
	case script.Invalid, script.NotFound, script.Script, script.Limit, script.Overloaded, script.Denied:
		return Refused
	}
	return Failed
}

// engine returns the engine with the name.
func (r *Registry) engine(name string) (engine.Checker, error) {
	if e, ok := r.engines[name]; ok {
		return e, nil
	}
	known := slices.Sorted(maps.Keys(r.engines))
	return nil, script.Errorf(script.Invalid, "engine", "%.80q is not an engine of this registry: it has %s", name, strings.Join(known, ", "))
}

// check compiles the source of the version, which runs with spec.
func (r *Registry) check(v script.Version, source []byte, spec script.Spec) error {
	e, err := r.engine(v.Engine)
	if err != nil {
		return err
	}
	err = e.Check(engine.Source{Code: source, Entrypoint: v.Entrypoint, Library: spec.Library, Runtime: spec.Runtime})
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*script.Error](err); ok && known.Field == "" {
		refusal := *known
		refusal.Field = "source"
		return &refusal
	}
	return err
}
