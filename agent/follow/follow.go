// Package follow keeps an agent current: it takes in the registry's feed,
// notices what is missing from it and fetches that, makes releases, values and
// settings of tenants live one by one, and reports how far it has come.
//
// docs/architecture.md has the protocol. In short: every event names the one
// before it, so a gap shows; a beacon says each second where the feed is, so a
// silent loss shows, and what the state's checksum is, so that a drift shows;
// whatever shows is mended by a Pull from the registry, which is also what is polled
// while no beacon is heard. The cursor moves over what has been applied and over
// nothing else. Nothing is believed that no trusted key has signed.
package follow

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Cursor is a position in the feed of one fleet. The zero Cursor is before
// everything.
type Cursor struct {
	Fleet    string
	Revision script.Revision
	// Removals is how many objects the registry had removed by then, or UnknownRemovals.
	Removals int64
	// Withheld is how many of those the agent has withheld, together with what the registry lost.
	Withheld int64
	// Accepted is the revision of the last loss that was accepted and needs no acceptance any
	// more.
	Accepted script.Revision
}

// Registry is what the follower asks of the registry. Errors of a stream end it.
type Registry interface {
	// Pull streams sealed pages; see registry.v1.Feed. A registry that does not
	// know it ends the stream with ErrOldRegistry in the error's chain.
	Pull(ctx context.Context, req *registryv1.PullRequest) iter.Seq2[*registryv1.PullResponse, error]
	// Sync streams what changed since the cursor, as the wire protocol 1 had it.
	Sync(ctx context.Context, since Cursor, withoutSources bool) iter.Seq2[*registryv1.SyncResponse, error]
	// FetchSources streams those of the sources that the registry has.
	FetchSources(ctx context.Context, digests []script.Digest) iter.Seq2[*scriptv1.Source, error]
}

// Feed is where the registry's announcements come from. It may lose, double,
// delay and reorder them.
type Feed interface {
	// Subscribe hands every message to h until ctx is done. It returns when the
	// subscription is in place, or at once while there is no connection.
	Subscribe(ctx context.Context, h Handler) error
}

// Handler takes in what a Feed delivers: messages in their envelopes, which it opens
// itself, and of which it does not believe all. They are its own from then on. Its
// methods return at once and may be called from any goroutine.
type Handler interface {
	Event(sealed []byte)
	Beacon(sealed []byte)
	RollCall(sealed []byte)
	Tail(sealed []byte)
	Recall(sealed []byte)
	Query(sealed []byte)
	Content(sealed []byte)
	// Lost says that messages were lost on the way.
	Lost()
	// Connected says that the connection is there, anew or again, or is gone.
	Connected(bool)
}

// Reporter sends status to the registry, in the session that the registry gave. A report that
// is lost is made up for by the next.
type Reporter interface {
	Report(ctx context.Context, s *eventv1.Status, in seal.Session) error
}

// Item is an object as the registry sent it.
type Item struct {
	Key      string // of the object, as script.Object has it
	Object   script.Object
	Sealed   []byte               // the envelope of its entry
	SealedBy string               // the key that the envelope says to be signed by; "" for none
	Trace    tracecontext.Context // that the event brought it in; zero if none
}

// State is the agent's own: what it keeps and what it runs. The follower is its
// only writer, and calls these methods from one goroutine at a time, but for Prepare,
// and for HasSource and PutSources, which it calls meanwhile. Errors that are not a
// *script.Error of kind Script, Limit or Invalid are taken to pass: what failed is
// tried again.
type State interface {
	// Cursor that was kept last.
	Cursor() Cursor
	// Revision of the live object with the key; 0 if there is none.
	Revision(key string) script.Revision
	// Live yields the keys of the live objects.
	Live() iter.Seq[string]
	// Incomplete returns live objects whose content was lost: the source of the
	// active version, or that of a value.
	Incomplete() []script.Object
	// HasSource reports whether the source, or the content of a value, is kept.
	HasSource(d script.Digest) bool
	// PutSources keeps verified sources and contents: durably those that a live object
	// retains, others with the commit that needs them.
	PutSources(sources map[script.Digest][]byte) error
	// Prepare compiles the version that is to run here. Its source is among those given
	// if it is at hand, else it is one of those kept. In bulk, nothing that is in use gives
	// way for it. It may be called concurrently, also while PutSources keeps the sources
	// that are given.
	Prepare(ctx context.Context, r script.Release, sources map[script.Digest][]byte, bulk bool) error
	// Commit makes items durable and then live, and removes what has the other keys.
	// After an error nothing of it is live. An item without an envelope is live and
	// kept as it is: its content was lost, and is there again.
	Commit(put []Item, removed []string) error
	// Reseal keeps items that are live in place of what is kept of them in other
	// envelopes, durably.
	Reseal(items []Item) error
	// Keys returns the ids of the keys that what is kept is signed by; "" is among
	// them if something is not.
	Keys() []string
	// Checksum returns the sum of wire.FingerprintObject over the live objects of the
	// kind, but for those with the keys that are left out. Before, it reads at least
	// `again` of them anew, each time the next ones, or all if there are no more.
	Checksum(kind script.ObjectKind, again int, leftOut []string) wire.Sum
	// Check returns wire.FingerprintObject of the live object with the key as it is in
	// memory now, and whether it still is what was committed. Both are zero if there
	// is none.
	Check(key string) (fingerprint wire.Sum, sound bool)
	// SaveCursor keeps the cursor, after what it covers was committed. One that follows
	// another survives the process, and is durable with the next commit; any other is
	// durable at once.
	SaveCursor(c Cursor) error
}

// Config of a Follower.
type Config struct {
	Agent    string            // the agent's name
	Labels   map[string]string // go with each status
	Software string            // the version of this software

	// Trusted says whose messages are believed.
	Trusted *seal.Keyring
	// Publishers says whose signatures releases need besides; nil asks for none.
	Publishers *publisher.Roots
	// Tenants are those that are followed.
	Tenants script.Selector
	// AdoptFleet is the fleet to change to when the registry serves it; "" for none. An agent
	// keeps its fleet otherwise, and one without a fleet takes the registry's.
	AdoptFleet string
	// RemovalShare is how much of what is live the registry may remove at once, in percent,
	// unless it means it; 20 if 0.
	RemovalShare int

	// Troubles returns what is live and yet kept from running, for the status; may be
	// nil. It returns at once.
	Troubles func() []Trouble
	// Lags returns, for the status, the tenants whose process does not run all that is live here. The
	// changes that a process lacks are above the tenant's revision. Lags may be nil.
	Lags func() map[string]script.Revision

	// Disk returns, for the status, how the disk is now; may be nil. It returns at once.
	Disk func(now time.Time) *eventv1.Disk

	// Trials returns what has become of candidates here, for the status: what matters most
	// first, as the status holds only the first MaxTrials; may be nil. It returns at once.
	Trials func() []Trial

	// Usage returns, for the status, what the calls of tenants used since it was asked last: of at most so many
	// tenants, and what others used the next time. It may be nil. It returns at once.
	Usage func(most int) []callstats.TenantUse

	// Tail, if not nil, is called from one goroutine when somebody reads along with what
	// scripts log. It returns at once.
	Tail func(Tail)
	// Recall, if not nil, is called from one goroutine when the registry asks this agent for
	// copies. It returns at once.
	Recall func(Recall)
	// Query, if not nil, is called from one goroutine for each query of the registry that names this
	// agent. A query may be old, or may come again. Query returns at once.
	Query func(*eventv1.Query)
	// Content, if not nil, is called from the same goroutine for each part of what belongs to a query of
	// this agent. It comes before the query, and may be old, or come again. Content returns at once.
	Content func(*eventv1.QueryContent)

	// Tracer makes the spans of activations; nil for none. About TracedAgents agents of all that follow
	// the same tenants trace one; DefaultTracedAgents if 0. Traced, if not nil, is called for what is
	// about to become live with such a span, from one goroutine at a time.
	Tracer       trace.Tracer
	TracedAgents int
	Traced       func(o script.Object, span trace.SpanContext)

	State    State
	Registry Registry
	Feed     Feed
	Reporter Reporter

	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
	// Seed of the jitter; 0 means a random one.
	Seed uint64
}

// Trouble is a live object that is kept from running, and why.
type Trouble struct {
	Key      string // of the object
	Revision script.Revision
	Err      error
}

// Trial is what has become of a candidate on this agent.
type Trial struct {
	Key     string // of the release
	Version uint64 // of the candidate
	Attempt uint64
	Spec    script.Digest // of what it runs with
	// Tested says that its tests were run; Err is of the first that failed, or nil.
	Tested bool
	Err    *script.Error
	// Waiting is the last error of the test that the agent tries again; nil if there is none.
	Waiting *script.Error
	// Calls of the candidate since it went live here, and those of them that failed.
	Calls, FailedCalls uint64
	ProcessEnded       bool // while it ran the candidate
	// StepCalls are those of what runs here in the candidate's step, if they are compared; nil for
	// none.
	StepCalls *script.StepCalls
	// ActiveCalls are likewise those of the active version, if the keys of calls decide which of the two
	// they run. StepCalls are those of the candidate then.
	ActiveCalls *script.StepCalls
	// Shadow is what the agent found in the shadow of calls; nil if that is nothing.
	Shadow *script.ShadowCalls
}

// Follower follows the feed of one registry.
type Follower struct {
	cfg      Config
	log      *slog.Logger
	inbox    inbox
	machine  machine
	applier  applier
	status   status
	usage    usage
	metrics  *metrics
	refusals *refusals
	done     chan outcome
	asked    chan *question // the registry has begun to answer, or has not
	answer   *question      // that waits for the job in progress; nil for none
	silent   int            // questions in a row that the registry did not answer
	fetched  chan fetched   // for retries
	again    *fetched       // that waits for the job in progress; nil for none
	retryAt  time.Time      // of what failed
	// activated is the revision up to which everything is live, but for what failed.
	activated script.Revision
	unsent    bool    // the last status
	trouble   trouble // with the registry
	tails     tails
	recalls   tails
	session   seal.Session // the zero one until a registry gives one; older ones never do

	reporting atomic.Pointer[seal.Session] // session, for all to read
	standing  atomic.Pointer[standing]
	synced    chan struct{} // closed with the first sync
	// answering says that the registry's answer is being taken in.
	answering atomic.Bool
}

// standing is how far the follower has come, for all to read.
type standing struct {
	revision script.Revision
	current  time.Time // when it was last known to be current; zero: never
	held     string
	drifting bool // what is live differs from the registry's checksum, and nothing has repaired it yet
}

// New returns a follower that starts from the state's cursor. It fails only if
// nobody is said to be trusted, or if its metrics are registered already.
func New(cfg Config) (*Follower, error) {
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	if cfg.Trusted == nil {
		return nil, errors.New("follow: Config.Trusted is nil: seal.TrustEverything() is for those who ask for no signatures")
	}
	f := &Follower{cfg: cfg, log: cfg.Log, refusals: newRefusals(cfg.Log), done: make(chan outcome, 1), asked: make(chan *question, 1), fetched: make(chan fetched, 1), synced: make(chan struct{})}
	m, err := newMetrics(cfg.Metrics, f)
	if err != nil {
		return nil, err
	}
	f.metrics = m
	open := opener{trusted: cfg.Trusted, tenants: cfg.Tenants, group: cfg.Tenants.Group()}
	f.inbox.init(open, f.refusals)
	random := rand.New(rand.NewPCG(seed, 0))
	f.machine = newMachine(cfg, random, m, f.refusals)
	f.status, f.usage = newStatus(cfg, random), usage{take: cfg.Usage}
	f.applier = newApplier(cfg, f.status.base.GetIncarnation(), open, f.refusals, m, rand.New(rand.NewPCG(seed, 1)))
	left := f.applier.leave(outcome{})
	f.retryAt, f.status.failures, f.status.keys, f.machine.keys = left.retryAt, left.failures, left.keys, left.keys
	f.activated = f.machine.cursor.Revision
	f.publish()
	return f, nil
}

// Run follows until ctx is done; it then says that the agent is leaving and
// returns. It returns an error only if the feed cannot be subscribed to at all,
// which no waiting would mend. Run is called once.
func (f *Follower) Run(ctx context.Context) error {
	now := time.Now()
	f.machine.start(now)
	f.status.changed()
	if err := f.cfg.Feed.Subscribe(ctx, &f.inbox); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now = time.Now()
		f.takeIn(now)
		for f.start(ctx, now) {
		}
		f.report(ctx, now)
		timer.Reset(f.wake().Sub(now))
		select {
		case <-ctx.Done():
			f.leave(ctx)
			return nil
		case out := <-f.done:
			f.finish(time.Now(), out)
		case q := <-f.asked:
			f.takeAnswer(time.Now(), q)
		case got := <-f.fetched:
			f.again = &got
		case <-f.inbox.signal:
		case <-timer.C:
		}
	}
}

// takeIn hands what came in to the machine.
func (f *Follower) takeIn(now time.Time) {
	in := f.inbox.take()
	for _, m := range in.messages {
		switch {
		case m.event != nil:
			f.machine.event(now, m.event)
		case m.beacon != nil:
			if f.machine.takeBeacon(m.beacon) {
				f.status.slow(m.beacon.reportEach)
				f.applier.traces.agents.Store(int32(min(m.beacon.agents, math.MaxInt32))) //nolint:gosec // it fits
			}
		case m.tail != nil:
			f.tail(now, m.tail)
		case m.recall != nil:
			f.recall(now, m.recall)
		case m.query != nil:
			f.query(m.query)
		case m.content != nil:
			f.content(m.content)
		case !f.machine.ofAnotherFleet("roll call", *m.rollCall):
			f.status.called(now)
		}
	}
	if in.lost {
		f.machine.lose()
	}
	if in.connected {
		f.status.called(now)
	}
	if in.changed {
		f.status.changed()
	}
	f.publish()
}

// work does one job, on a goroutine of its own: there is one at a time, so that
// the loop goes on listening and reporting while a disk or the registry is slow.
func (f *Follower) work(ctx context.Context, j job) outcome {
	var out outcome
	switch j.kind {
	case jobCheck:
		out = f.applier.check(ctx, j.cursor, j.beacon)
	case jobApply:
		out = f.applier.events(ctx, j.cursor, j.events)
	default:
		out = f.applier.retry(ctx, j.cursor, j.fetched)
	}
	return f.applier.leave(out)
}

func (f *Follower) finish(now time.Time, out outcome) {
	before, drifts, repaired := f.machine.cursor, f.machine.drifts, f.machine.repaired
	f.machine.finish(now, out)
	if out.kind == jobSync {
		f.answering.Store(false)
		f.tell(now, out)
	}
	if len(out.session.Key) > 0 {
		if f.session.KeyID() != out.session.KeyID() {
			f.status.changed() // perhaps no registry has believed the last reports
		}
		f.session = out.session
		f.reporting.Store(&out.session)
	}
	if f.machine.drifts != drifts {
		f.log.Warn("what is live differs from what the registry has; everything is fetched and compared",
			"revision", f.machine.cursor.Revision, "found", f.machine.drifts, "again_in", f.machine.drift.due.Sub(now).String())
		f.status.changed()
	}
	if f.machine.repaired != repaired {
		f.log.Info("what is live is what the registry has again", "revision", f.machine.cursor.Revision)
		f.status.changed()
	}
	// A beacon moves the cursor each second in a fleet with other groups.
	if out.changed || !slices.Equal(f.status.keys, out.keys) || f.status.held != f.machine.held || out.kind != jobCheck && before != f.machine.cursor {
		f.status.changed()
	}
	f.retryAt, f.status.failures, f.status.keys, f.status.drifts = out.retryAt, out.failures, out.keys, f.machine.drifts
	f.status.repaired = f.machine.repaired
	f.activate(now, before.Fleet, out)
	f.status.held = f.machine.held
	f.publish()
}

// activate notes how far everything is live: up to the cursor, but for what the registry has
// had little time to send.
func (f *Follower) activate(now time.Time, fleet string, out outcome) {
	before := f.activated
	f.activated = f.machine.cursor.Revision
	for _, failure := range out.failures {
		if failure.awaited {
			f.activated = min(f.activated, failure.since-1)
		}
	}
	if (fleet != f.machine.cursor.Fleet || before != f.activated) && out.kind != jobCheck {
		f.status.activated(now, f.activated)
	}
}

// publish lets others see how far the follower has come.
func (f *Follower) publish() {
	s := standing{revision: f.activated, current: f.machine.current, held: f.machine.held, drifting: f.machine.drift.wanted}
	if old := f.standing.Load(); old == nil || *old != s {
		f.standing.Store(&s)
	}
}

func (f *Follower) wake() time.Time {
	return earlier(f.status.wake(), f.machine.wake(f.retryAt))
}

// leave waits for the job in progress, whose context is done, and tells the
// registry not to wait for this agent.
func (f *Follower) leave(ctx context.Context) {
	if f.machine.asking && f.answer == nil {
		f.answer = <-f.asked
	}
	if f.answer != nil {
		f.answer.close()
	}
	if f.machine.fetching && f.again == nil {
		<-f.fetched
	}
	if f.machine.busy {
		f.finish(time.Now(), <-f.done)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	now := time.Now()
	last := f.status.compose(now, f.machine.cursor, true)
	last.Usage = f.usage.next(now, f.hears(now), true)
	if err := f.cfg.Reporter.Report(ctx, last, f.session); err != nil {
		f.log.Debug("could not say good-bye", "error", err)
	}
}
