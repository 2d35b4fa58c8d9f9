// Package cache holds what an agent runs: the table of live releases, each
// swapped by one pointer, and the compiled programs, of which the least recently
// used give way when their budget of bytes is spent and are compiled again from
// their source when they are called next.
package cache

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Key is what makes a program: equal keys share one, whoever owns the scripts.
type Key struct {
	Engine     string
	Entrypoint string
	Digest     script.Digest
	Inputs     script.Digest // Version.Inputs
}

// KeyOf returns the key of the version's program.
func KeyOf(v script.Version) Key {
	return Key{Engine: v.Engine, Entrypoint: v.Entrypoint, Digest: v.Digest, Inputs: v.Inputs}
}

func (k Key) String() string {
	return k.Engine + " " + k.Digest.String() + " " + k.Inputs.String() + " " + k.Entrypoint
}

// Sources is where programs are compiled from.
type Sources interface {
	// Source returns verified source, wherever it has to come from. Its errors
	// are those of the call that needed it.
	Source(ctx context.Context, d script.Digest) ([]byte, error)
}

// Turns says when a program may be compiled because a call needs it: compiling keeps a
// processor busy, and takes as long as whoever wrote the source wants.
type Turns interface {
	// Enter returns when it is the tenant's turn to compile; leave is then called when
	// that is done. Its errors are those of the call.
	Enter(ctx context.Context, tenant string) (leave func(), err error)
}

// Config of Programs.
type Config struct {
	Engines map[string]engine.Engine // by name
	Sources Sources
	// Budget is how many bytes the programs may hold together. One program is
	// kept even if it is larger.
	Budget int64
}

// Programs is a cache of compiled programs. It is safe for concurrent use.
type Programs struct {
	engines map[string]engine.Engine
	sources Sources
	budget  int64
	loads   singleflight.Group
	specs   *specs

	mu    sync.Mutex // guards what follows; nothing is compiled or read under it
	lru   *simplelru.LRU[Key, *entry]
	bytes int64

	hits, misses, evictions atomic.Uint64
}

// entry is a program's place in the cache. A release that uses it remembers
// the entry, which is empty once the program was evicted.
type entry struct {
	program atomic.Pointer[engine.Program]
	used    atomic.Bool // since the cache last looked for something to evict
	bytes   int64
}

// overhead estimates what an entry costs besides its program.
const overhead = 512

// NewPrograms returns an empty cache.
func NewPrograms(cfg Config) *Programs {
	lru, err := simplelru.NewLRU[Key, *entry](math.MaxInt, nil)
	if err != nil {
		panic(err) // only a size of 0 or less is an error
	}
	return &Programs{engines: cfg.Engines, sources: cfg.Sources, budget: cfg.Budget, specs: newSpecs(cfg.Sources), lru: lru}
}

// Of returns the program of the version that the release runs here. It allocates nothing
// when the program is there; else it is compiled when turns let it, or at once if they
// are nil.
func (p *Programs) Of(ctx context.Context, r *Release, turns Turns) (engine.Program, error) {
	if e := r.entry.Load(); e != nil {
		if program := e.program.Load(); program != nil {
			if !e.used.Load() { // a load is cheaper than a store that other cores see
				e.used.Store(true)
			}
			return *program, nil
		}
	}
	e, program, err := p.get(ctx, r.Name.Tenant, KeyOf(r.Runs), r.Inputs(), turns)
	if err != nil {
		return nil, err
	}
	r.entry.Store(e)
	return program, nil
}

// Get returns the program with the key and these inputs, for a call of the tenant; as Of does.
func (p *Programs) Get(ctx context.Context, tenant string, k Key, in script.Inputs, turns Turns) (engine.Program, error) {
	_, program, err := p.get(ctx, tenant, k, in, turns)
	return program, err
}

func (p *Programs) get(ctx context.Context, tenant string, k Key, in script.Inputs, turns Turns) (*entry, engine.Program, error) {
	if e, program := p.lookup(k); program != nil {
		p.hits.Add(1)
		return e, program, nil
	}
	p.misses.Add(1)
	type loaded struct {
		entry   *entry
		program engine.Program
	}
	// One caller's deadline must not fail the others that wait for the same
	// program: the load goes on without it. Nor must one tenant's place in the queue
	// be another's.
	ch := p.loads.DoChan(tenant+" "+k.String(), func() (any, error) {
		e, program, err := p.load(context.WithoutCancel(ctx), tenant, k, in, turns)
		return loaded{e, program}, err
	})
	select {
	case res := <-ch:
		if res.Err != nil {
			return nil, nil, res.Err
		}
		l := res.Val.(loaded)
		return l.entry, l.program, nil
	case <-ctx.Done():
		return nil, nil, &script.Error{
			Kind: script.Timeout, Message: "the call's time ran out while its program was being loaded", Err: context.Cause(ctx),
		}
	}
}

// load compiles the program, if nobody has since it was looked for.
func (p *Programs) load(ctx context.Context, tenant string, k Key, in script.Inputs, turns Turns) (*entry, engine.Program, error) {
	if e, program := p.lookup(k); program != nil {
		return e, program, nil
	}
	source, err := p.sources.Source(ctx, k.Digest)
	if err != nil {
		return nil, nil, err
	}
	if turns != nil {
		leave, err := turns.Enter(ctx, tenant)
		if err != nil {
			return nil, nil, err
		}
		defer leave()
	}
	if e, program := p.lookup(k); program != nil { // for another tenant, meanwhile
		return e, program, nil
	}
	program, err := p.compile(tenant, k, source, in)
	if err != nil {
		return nil, nil, err
	}
	return p.insert(k, program, len(source), true), program, nil
}

// Prepare makes sure that source compiles to the program with the key and these inputs, for the
// tenant, and keeps the program: in place of others if keep, else only if there is room.
// Its errors are those of the engine, and Invalid for an unknown one, and for libraries that the tenant's
// scripts cannot have.
func (p *Programs) Prepare(tenant string, k Key, source []byte, in script.Inputs, keep bool) error {
	if _, program := p.lookup(k); program != nil {
		return nil
	}
	program, err := p.compile(tenant, k, source, in)
	if err != nil {
		return err
	}
	p.insert(k, program, len(source), keep)
	return nil
}

// Check is Prepare without keeping anything, for programs that run elsewhere.
func (p *Programs) Check(tenant string, k Key, source []byte, in script.Inputs) error {
	eng, err := p.engine(k)
	if err == nil {
		err = checkInputs(tenant, k, in)
	}
	if err != nil {
		return err
	}
	return eng.Check(engine.Source{Code: source, Entrypoint: k.Entrypoint, Libraries: in.Libraries, Runtime: in.Runtime})
}

// Compile returns the program without keeping it: the caller closes it.
func (p *Programs) Compile(tenant string, k Key, source []byte, in script.Inputs) (engine.Program, error) {
	return p.compile(tenant, k, source, in)
}

// Has reports whether the program is compiled and kept.
func (p *Programs) Has(k Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lru.Contains(k)
}

// Full reports whether the budget is spent, or as good as.
func (p *Programs) Full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes >= p.budget-p.budget/16
}

func (p *Programs) lookup(k Key) (*entry, engine.Program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.lru.Get(k)
	if !ok {
		return nil, nil
	}
	return e, *e.program.Load()
}

func (p *Programs) compile(tenant string, k Key, source []byte, in script.Inputs) (engine.Program, error) {
	eng, err := p.engine(k)
	if err == nil {
		err = checkInputs(tenant, k, in)
	}
	if err != nil {
		return nil, err
	}
	return eng.Compile(engine.Source{Code: source, Entrypoint: k.Entrypoint, Libraries: in.Libraries, Runtime: in.Runtime})
}

// checkInputs refuses inputs that are not those of the key, and libraries that are not the tenant's.
func checkInputs(tenant string, k Key, in script.Inputs) error {
	if in.Digest() != k.Inputs {
		return script.Errorf(script.Invalid, "libraries", "the version comes with other libraries or options of its engine than it says: publish it again")
	}
	return script.CheckLibraries(script.Name{Tenant: tenant}, in.Libraries)
}

func (p *Programs) engine(k Key) (engine.Engine, error) {
	if eng, ok := p.engines[k.Engine]; ok {
		return eng, nil
	}
	// Unavailable, so that a rollout waits for the agent: the version is not wrong, and an upgrade brings the engine.
	return nil, script.Errorf(script.Unavailable, "engine", "%.80q is not an engine of this agent, which has: %s: run an agentd that has it",
		k.Engine, strings.Join(slices.Sorted(maps.Keys(p.engines)), ", "))
}

// insert keeps program and closes those that have to give way for it.
func (p *Programs) insert(k Key, program engine.Program, sourceLen int, keep bool) *entry {
	e := &entry{bytes: int64(program.Size()) + int64(sourceLen) + overhead}
	e.program.Store(&program)

	p.mu.Lock()
	if !keep && p.bytes+e.bytes > p.budget {
		p.mu.Unlock()
		program.Close()
		return e
	}
	var out []engine.Program
	if old, ok := p.lru.Peek(k); ok { // compiled twice at once: the later stays
		p.lru.Remove(k)
		out = append(out, p.drop(old))
	}
	p.lru.Add(k, e)
	p.bytes += e.bytes
	chances := p.lru.Len() // one each, or callers that never rest keep this loop going
	for p.bytes > p.budget && p.lru.Len() > 1 {
		oldKey, old, _ := p.lru.GetOldest()
		if old == e || (old.used.Swap(false) && chances > 0) {
			p.lru.Get(oldKey)
			chances--
			continue
		}
		p.lru.Remove(oldKey)
		out = append(out, p.drop(old))
		p.evictions.Add(1)
	}
	p.mu.Unlock()

	for _, o := range out {
		o.Close() // calls in flight finish all the same
	}
	return e
}

// drop empties an entry that was removed. p.mu is held.
func (p *Programs) drop(e *entry) engine.Program {
	p.bytes -= e.bytes
	return *e.program.Swap(nil)
}

// Stats of the cache since it was made.
type Stats struct {
	Programs  int
	Bytes     int64
	Hits      uint64 // lookups that found the program; calls that took the short way left out
	Misses    uint64
	Evictions uint64
}

// Stats returns figures for metrics.
func (p *Programs) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Programs: p.lru.Len(), Bytes: p.bytes,
		Hits: p.hits.Load(), Misses: p.misses.Load(), Evictions: p.evictions.Load(),
	}
}

// Close closes all programs. Calls in flight finish.
func (p *Programs) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.lru.Values() {
		p.drop(e).Close()
	}
	p.lru.Purge()
}
