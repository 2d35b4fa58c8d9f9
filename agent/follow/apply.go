package follow

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	fetchAtOnce = 1000 // digests in one request
	// manyObjects is the number from which the programs in use are not made to
	// give way for those that come.
	manyObjects = 64
)

// applier makes objects live. It is used by one goroutine at a time: that of
// the job in progress, or the loop while there is none.
type applier struct {
	state    State
	registry Registry
	roots    *publisher.Roots
	adopt    string // the fleet to change to; "" for none
	agent    string
	life     string       // the agent's incarnation
	session  seal.Session // that a registry gave last
	open     opener
	refusals *refusals
	log      *slog.Logger
	metrics  *metrics
	traces   *activations
	random   *rand.Rand
	share    int // of what is live that may be removed at once, in percent

	failing     map[string]*failing
	manySkipped bool // a failing object has many skipped versions
	// unreadable are the keys of objects whose records the registry cannot read, as it said
	// last: what is live of them stays.
	unreadable keys
	changed    bool      // failing, since the last outcome
	listed     []failure // of the last outcome: sorting 10,000 takes 10 ms
	// patience of fetches in the job; 0: nothing is fetched.
	patience time.Duration
	// removed has the revisions of the tombstones that events brought since the last answer of
	// the registry: one that is older must not bring their objects back.
	removed map[string]script.Revision
}

// candidate is an object on its way.
type candidate struct {
	Item
	since   script.Revision   // as in failing, if it fails
	skipped []script.Revision // as in failing
	ready   bool              // prepared
	err     error
}

func newApplier(cfg Config, incarnation string, open opener, refusals *refusals, m *metrics, random *rand.Rand) applier {
	a := applier{
		state: cfg.State, registry: cfg.Registry, roots: cfg.Publishers, adopt: cfg.AdoptFleet, agent: cfg.Agent, life: incarnation,
		open: open, refusals: refusals, log: cfg.Log, metrics: m, traces: newActivations(cfg),
		random: random, share: cmp.Or(cfg.RemovalShare, defaultRemovalShare),
		failing: map[string]*failing{}, removed: map[string]script.Revision{},
	}
	for _, o := range cfg.State.Incomplete() {
		err := a.vouched(o)
		if err == nil {
			err = script.Errorf(script.Unavailable, "", "its %s was lost from disk and is being fetched again", contentOf(o, a.lost(o)))
		}
		a.fail(time.Now(), &candidate{since: o.Revision(), Item: Item{Key: o.Key(), Object: o}, err: err})
	}
	return a
}

// events applies events that follow one another, as one change.
func (a *applier) events(ctx context.Context, from Cursor, events []*event) outcome {
	out := outcome{kind: jobApply, began: time.Now(), cursor: from}
	var objects []object
	var sources []*scriptv1.Source
	for _, e := range events {
		objects = append(objects, e.objects...)
		sources = append(sources, e.sources...)
	}
	var chosen selection
	a.choose(&chosen, objects, choice{above: nothingUnseen})
	chosen.candidates = append(chosen.candidates, a.released(&chosen)...)
	a.patience = applyPatience
	a.ready(ctx, chosen.candidates, a.verified(sources), nil)
	ready := time.Now()
	made := removals{made: from.Removals}
	for _, e := range events {
		made.made = max(made.made, e.removals)
	}
	if out.err = a.guardRemovals(nil, chosen.candidates, from, made); out.err != nil {
		return out
	}
	a.holdBack(chosen.candidates)
	traced := a.traces.begin(out.kind, out.began, ready, chosen.candidates)
	_, _ = a.commit(chosen.candidates, nil) // each candidate has the error, and is tried again
	a.traces.end(traced)
	for _, c := range chosen.candidates {
		if c.Object.Deleted() && c.err == nil {
			a.removed[c.Key] = c.Object.Revision()
		}
	}
	if ctx.Err() != nil { // stopping: what was interrupted must come again
		out.err = context.Cause(ctx)
		return out
	}
	out.cursor = from.removed(tombstones(objects)-a.unremovedOf(chosen.candidates), made.made)
	out.cursor.Revision = events[len(events)-1].revision
	a.saveCursor(out.cursor)
	a.metrics.events.Add(float64(len(events)))
	return out
}

// retry tries again what is due, with what was fetched for it.
func (a *applier) retry(ctx context.Context, at Cursor, got fetched) outcome {
	a.patience = 0
	now := time.Now()
	out := outcome{kind: jobRetry, began: now, cursor: at}
	var candidates []*candidate
	for _, f := range a.due(now) {
		candidates = append(candidates, f.again())
	}
	a.ready(ctx, candidates, got.sources, got.err)
	if ctx.Err() != nil {
		out.err = context.Cause(ctx)
		return out
	}
	ready := time.Now()
	a.holdBack(candidates)
	traced := a.traces.begin(out.kind, out.began, ready, candidates)
	removed, _ := a.commit(candidates, nil) // as above
	a.traces.end(traced)
	out.cursor = at.removed(removed, at.Removals+int64(removed))
	a.saveCursor(out.cursor)
	return out
}

// selection is the newest object of each key among objects.
type selection struct {
	candidates []*candidate
	at         map[string]int
	same       []Item // looked at, and equal to what is live but for the envelope
}

// choice says which objects are chosen besides those that are newer than what is
// known.
type choice struct {
	otherFleet bool            // all: revisions of two fleets do not compare
	thorough   bool            // those that differ from what is live
	head       script.Revision // that the objects are as of, if thorough
	// above is the revision from which on there may have been objects that are not
	// among them, since they were replaced.
	above script.Revision
	// unreadable: what the registry says of these objects may be long past.
	unreadable keys
}

// nothingUnseen is the choice's above for events, of which each is there.
const nothingUnseen = math.MaxInt64 - 1

// choose adds those of the objects that are to go live.
func (a *applier) choose(s *selection, objects []object, by choice) {
	if s.at == nil {
		s.at = map[string]int{}
	}
	for _, o := range objects {
		if o.err != nil {
			a.metrics.malformed.Inc()
		}
		if !by.otherFleet && o.Object.Revision() < a.removed[o.Key] {
			continue
		}
		if !by.otherFleet && o.Object.Revision() <= a.known(o.Key) {
			if !by.thorough || by.unreadable.has(o.Key) && o.Object.Revision() < a.known(o.Key) {
				continue
			}
			differs, same := a.look(o, by.head)
			if same {
				s.same = append(s.same, o.Item)
			}
			if !differs {
				continue
			}
		}
		c := &candidate{Item: o.Item, err: o.err, since: min(o.Object.Revision(), by.above+1)}
		if !by.otherFleet {
			c.skipped = a.skippedBy(o.Item)
		}
		i, twice := s.at[o.Key]
		if !twice {
			s.at[o.Key] = len(s.candidates)
			s.candidates = append(s.candidates, c)
			continue
		}
		before := s.candidates[i]
		before.since = min(before.since, c.since)
		if o.Object.Revision() > before.Object.Revision() {
			c.since, c.skipped = before.since, append(before.skipped, before.Object.Revision())
			s.candidates[i] = c
		}
	}
}

// known returns the newest revision of the key that was applied or tried.
func (a *applier) known(key string) script.Revision {
	known := a.state.Revision(key)
	if f := a.failing[key]; f != nil {
		known = max(known, f.item.Object.Revision())
	}
	return known
}

// ready brings what the candidates need, and compiles the programs of releases. What
// cannot be made ready gets an error. Once there is a fetchErr, nothing more is fetched.
func (a *applier) ready(ctx context.Context, candidates []*candidate, sources map[script.Digest][]byte, fetchErr error) {
	coming := keys{}
	for _, c := range candidates {
		if c.Object.Tenant != nil && c.err == nil {
			coming[c.Key] = struct{}{}
		}
	}
	for _, c := range candidates {
		if c.err == nil && !c.ready {
			c.err = cmp.Or(a.vouched(c.Object), a.bounded(c.Object, coming))
		}
	}
	wanted := slices.DeleteFunc(slices.Clone(candidates), func(c *candidate) bool {
		return c.ready || c.err != nil || !needs(c.Object)
	})
	many := len(wanted) > manyObjects
	for part := range bySize(wanted) {
		fetchErr = a.readyPart(ctx, part, sources, many, fetchErr)
	}
}

// bySize yields the candidates in parts whose sources have stageBytes together
// at most.
func bySize(candidates []*candidate) iter.Seq[[]*candidate] {
	return func(yield func([]*candidate) bool) {
		first, bytes := 0, 0
		for i, c := range candidates {
			size := 0
			for content := range c.Object.Contents {
				size += content.Size
			}
			if i > first && bytes+size > stageBytes {
				if !yield(candidates[first:i]) {
					return
				}
				first, bytes = i, 0
			}
			bytes += size
		}
		if first < len(candidates) {
			yield(candidates[first:])
		}
	}
}

// readyPart makes ready what fits into memory together. It returns why sources
// could not be fetched, be it now or before.
func (a *applier) readyPart(ctx context.Context, part []*candidate, given map[script.Digest][]byte, many bool, fetchErr error) error {
	sources, fetchErr := a.bring(ctx, part, given, fetchErr)
	// The disk and the compiler need not wait for one another.
	var putErr error
	var storing sync.WaitGroup
	storing.Go(func() { putErr = a.state.PutSources(sources) })
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, c := range part {
		if c.err = a.complete(c.Object, sources, fetchErr); c.err != nil {
			continue
		}
		if c.Object.Release == nil {
			c.ready = true
			continue
		}
		g.Go(func() error {
			c.err = a.state.Prepare(ctx, *c.Object.Release, sources, many)
			c.ready = c.err == nil
			return nil
		})
	}
	_ = g.Wait() // each candidate has its own error
	storing.Wait()
	if putErr != nil {
		unstored(part, sources, putErr)
	}
	return fetchErr
}

// complete returns why the object lacks something that it needs; nil if it does not.
func (a *applier) complete(o script.Object, sources map[script.Digest][]byte, fetchErr error) error {
	for c := range o.Contents {
		if _, here := sources[c.Digest]; here || a.state.HasSource(c.Digest) {
			continue
		}
		if fetchErr != nil {
			return fetchErr
		}
		return script.Errorf(script.Unavailable, "", "the registry did not send its %s %v", contentOf(o, c.Digest), c.Digest)
	}
	return nil
}

// needs reports whether the object needs anything besides itself.
func needs(o script.Object) bool {
	for range o.Contents {
		return true
	}
	return false
}

// unstored fails the candidates whose sources could not be stored, compiled or not.
func unstored(part []*candidate, sources map[script.Digest][]byte, err error) {
	for _, c := range part {
		for content := range c.Object.Contents {
			if _, among := sources[content.Digest]; among {
				c.ready = false
				c.err = script.Errorf(script.Unavailable, "disk", "its %s cannot be stored: %w", contentOf(c.Object, content.Digest), err)
			}
		}
	}
}

// bring returns those of the sources that the candidates need and the state
// lacks, fetched if they are not given and fetching did not fail before. The
// error says why some are missing.
func (a *applier) bring(ctx context.Context, candidates []*candidate, given map[script.Digest][]byte, fetchErr error) (map[script.Digest][]byte, error) {
	sources := map[script.Digest][]byte{}
	seen := map[script.Digest]struct{}{}
	var missing []script.Digest
	for _, c := range candidates {
		for content := range c.Object.Contents {
			d := content.Digest
			if _, twice := seen[d]; twice || a.state.HasSource(d) {
				continue
			}
			seen[d] = struct{}{}
			if source, here := given[d]; here {
				sources[d] = source
				continue
			}
			missing = append(missing, d)
		}
	}
	if len(missing) > 0 && fetchErr == nil && a.patience == 0 {
		fetchErr = script.Errorf(script.Unavailable, "", "what it needs is fetched from the registry: %w", errAwaited)
	}
	for part := range slices.Chunk(missing, fetchAtOnce) {
		if fetchErr != nil {
			break
		}
		var got map[script.Digest][]byte
		got, fetchErr = a.fetch(ctx, part)
		maps.Copy(sources, got)
	}
	return sources, fetchErr
}

// verified returns the sources whose content has the digest that they claim.
func (a *applier) verified(sources []*scriptv1.Source) map[script.Digest][]byte {
	good := make(map[script.Digest][]byte, len(sources))
	for _, src := range sources {
		d, content, err := verify(src)
		if err != nil {
			a.unsound(err)
			continue
		}
		good[d] = content
	}
	return good
}

// contentOf says what the content with the digest is to the object.
func contentOf(o script.Object, d script.Digest) string {
	switch r := o.Release; {
	case r == nil:
		return "content"
	case r.Stages(d):
		return "staged value"
	}
	return "source"
}

// lost returns the digest of the first content that the object needs and the state lacks.
func (a *applier) lost(o script.Object) (lost script.Digest) {
	for c := range o.Contents {
		if !a.state.HasSource(c.Digest) {
			return c.Digest
		}
	}
	return lost
}

// unsound takes note of a source that cannot be used.
func (a *applier) unsound(err error) {
	a.metrics.malformed.Inc()
	a.log.Warn("the registry sent a source that cannot be used; it is ignored", "error", err)
}

// commit makes live what is ready, removes what is gone, and remembers what
// failed. It returns how many live objects it removed. Call holdBack before.
func (a *applier) commit(candidates []*candidate, removed []string) (int, error) {
	var put []Item
	live := len(removed)
	for _, c := range candidates {
		switch {
		case c.err != nil:
		case c.Object.Deleted():
			if a.removes(c) {
				live++
			}
			removed = append(removed, c.Key)
		default:
			put = append(put, c.Item)
		}
	}
	var err error
	if len(put)+len(removed) > 0 {
		err = a.state.Commit(put, removed)
	}
	now := time.Now()
	for _, c := range candidates {
		if c.err == nil && err != nil {
			c.err = script.Errorf(script.Unavailable, "disk", "it cannot be stored, and nothing goes live that is not: %w", err)
		}
		if c.err != nil {
			a.fail(now, c)
			continue
		}
		a.pass(now, c)
	}
	a.forgetSkipped()
	if err != nil {
		live = 0
	}
	return live, err
}

// saveCursor keeps the cursor, but short of what failed: after a restart that
// has to come again. That the cursor cannot be kept is no reason to stop: it
// then lags behind what is kept, and more comes again than is needed.
func (a *applier) saveCursor(c Cursor) {
	for _, f := range a.failing {
		c.Revision = min(c.Revision, f.since-1)
	}
	c.Revision = max(c.Revision, 0)
	if err := a.state.SaveCursor(c); err != nil {
		a.log.Warn("the cursor cannot be stored; a restart will fetch more than it needs", "error", err)
	}
}

// leave adds to an outcome how the applier is left behind.
func (a *applier) leave(out outcome) outcome {
	if a.changed || a.listed == nil {
		a.listed = a.failures()
	}
	out.changed, out.failures, out.retryAt, out.keys = a.changed, a.listed, a.retryAt(), a.state.Keys()
	out.session = a.session
	a.changed = false
	return out
}
