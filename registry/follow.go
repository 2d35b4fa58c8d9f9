package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ErrForgotten is in the chain of a watch's error if the store has forgotten
// transactions that the watch was to yield: no other watch from there can do
// better.
var ErrForgotten = errors.New("the store has forgotten transactions that were asked for")

// State is all there is of the objects at one moment.
type State struct {
	Fleet string // the registry's identity
	Head  script.Revision
	// Floor, Heads: as in Snapshot.
	Floor    script.Revision
	Heads    map[string]script.Revision
	Removals Removals
	Freeze   script.Freeze
	// Releases, Values and Tenants are all, tombstones included, in no particular
	// order.
	Releases []script.Release
	Values   []script.Value
	Tenants  []script.Tenant
	// Unreadable are the objects that cannot be decoded. Each one is among the others as it
	// was last, if the store still knows that.
	Unreadable []Unreadable
}

// Objects yields all there is. They belong to the state.
func (s State) Objects() iter.Seq[script.Object] { return objects(s.Releases, s.Values, s.Tenants) }

// add adds an object.
func (s *State) add(o script.Object) {
	s.Head = max(s.Head, o.Revision()) // others than registries may have written it
	switch {
	case o.Release != nil:
		s.Releases = append(s.Releases, *o.Release)
	case o.Value != nil:
		s.Values = append(s.Values, *o.Value)
	default:
		s.Tenants = append(s.Tenants, *o.Tenant)
	}
}

// Len returns how many objects there are.
func (s State) Len() int { return len(s.Releases) + len(s.Values) + len(s.Tenants) }

// Projection is a view of the objects that Follow keeps up to date. Follow calls
// it from one goroutine. What it is given it may keep, but not change.
type Projection interface {
	// Reset says that all is as in s. It is called first, and whenever Follow cannot
	// bring some transactions.
	Reset(s State)
	// Apply says what the next transaction did.
	Apply(t Transaction)
}

// Freezing is a Projection that wants to know of the registry's freeze.
type Freezing interface {
	Projection
	// Frozen says what the freeze is from now on. Agents do not follow it, and it has no revision
	// of theirs.
	Frozen(f script.Freeze)
}

// Pulsed is a Projection that wants to know when it is up to date.
type Pulsed interface {
	Projection
	// Pulse says that everything was applied that the store had a moment ago. It is
	// called about once a PulseInterval, unless the store does not answer or its
	// watch fell behind.
	Pulse()
}

// PulseInterval is the time between two looks at the store's head.
const PulseInterval = time.Second

// Follow keeps the projections up to date with the store through one watch until
// ctx is done: it hands each transaction on once, in order. Where the store does not
// answer it tries again after a pause; where it has forgotten what comes next it
// starts from a snapshot. It follows one fleet: while the store has another one or none,
// the projections get nothing.
func Follow(ctx context.Context, store Store, log *slog.Logger, projections ...Projection) {
	f := follower{store: store, log: log, projections: projections, unreadable: map[string]script.Revision{}}
	RetryForever(ctx, log, "following the store", func(worked func()) error { return f.follow(ctx, worked) })
}

type follower struct {
	store       Store
	log         *slog.Logger
	projections []Projection

	// located: the projections have everything up to position, and nothing else.
	located  bool
	fleet    string       // whose; "" before the first snapshot
	position atomic.Int64 // written by one goroutine
	// head is what the store's head was at least: of what others than registries write
	// there, the store says nothing by it.
	head atomic.Int64 // written by one goroutine
	// written is how many transactions registries had made at the position.
	written int64
	// unreadable has the revisions of the records that are known to be so, by their keys.
	unreadable map[string]script.Revision

	waiting bool            // a pulse is due once the position is at due
	due     script.Revision // the store's head when it was last looked at
	stalled script.Revision // where the position was then
}

// What a watch does not tell by itself.
var (
	errBehind  = errors.New("the watch fell behind the store")
	errRewound = errors.New("the store is behind what it had: was it restored from a backup?")
)

// ours returns an error for another fleet than the one that is followed.
func (f *follower) ours(fleet string) error {
	if f.fleet == "" || fleet == f.fleet {
		return nil
	}
	return script.Errorf(script.Unavailable, "", "the store has fleet %s, and fleet %s is followed: %w", fleet, f.fleet, ErrNoFleet)
}

// follow applies what one watch yields until it fails. It calls worked once the watch has worked.
func (f *follower) follow(ctx context.Context, worked func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := f.locate(ctx); err != nil {
		return err
	}
	f.waiting = false
	steps, heads := f.watch(ctx), f.heads(ctx)
	for {
		var err error
		select {
		case s := <-steps:
			err = f.step(s)
		case h := <-heads:
			err = f.compare(h)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		worked()
	}
}

// locate finds where to go on: after what was handed on, or with a snapshot.
func (f *follower) locate(ctx context.Context) error {
	if f.located {
		replaced, err := f.replaced(ctx)
		if err != nil {
			return err
		}
		if replaced == nil {
			return nil
		}
		f.log.Warn("following the store starts from a snapshot", "error", replaced, "position", f.at())
		f.located = false
	}
	state, err := f.snapshot(ctx)
	if err == nil {
		err = f.ours(state.Fleet)
	}
	if err != nil {
		return err
	}
	for _, p := range f.projections {
		p.Reset(state)
	}
	f.fleet = state.Fleet
	f.located = true
	return nil
}

// readHead returns the store's head, if the store has the fleet.
func (f *follower) readHead(ctx context.Context) (script.Revision, error) {
	fleet, err := f.store.Fleet(ctx)
	if err == nil {
		err = f.ours(fleet)
	}
	if err != nil {
		return 0, err
	}
	return f.store.Head(ctx)
}

// replaced finds out whether the store has other transactions than those that were
// handed on: it returns why, or nil.
func (f *follower) replaced(ctx context.Context) (why, err error) {
	head, err := f.readHead(ctx)
	if err != nil {
		return nil, err
	}
	if head < script.Revision(f.head.Load()) {
		return fmt.Errorf("%w (its head is %d)", errRewound, head), nil
	}
	return nil, nil
}

// snapshot reads all there is. One bad record must not stop everything else for ever: it is
// named.
func (f *follower) snapshot(ctx context.Context) (State, error) {
	snapshot, err := f.store.Snapshot(ctx)
	if err != nil {
		return State{}, err
	}
	state := State{Fleet: snapshot.Fleet, Head: snapshot.Head, Floor: snapshot.Floor, Heads: snapshot.Heads, Removals: snapshot.Removals, Freeze: snapshot.Freeze}
	for object, err := range snapshot.Objects() {
		if u, ok := errors.AsType[*Unreadable](err); ok {
			state.Head = max(state.Head, u.Revision)
			state.Unreadable = append(state.Unreadable, *u)
			if u.Last != nil {
				state.add(*u.Last)
			}
			continue
		}
		if err != nil {
			return State{}, err
		}
		state.add(object)
	}
	f.position.Store(max(int64(state.Head), snapshot.At))
	f.head.Store(int64(snapshot.Head))
	f.written = snapshot.Written
	f.noteFreeze(&state.Freeze)
	before := f.unreadable
	f.unreadable = make(map[string]script.Revision, len(state.Unreadable))
	for i := range state.Unreadable {
		u := &state.Unreadable[i]
		f.unreadable[u.Key] = before[u.Key]
		f.note(u)
	}
	return state, nil
}

// note logs each record that cannot be read once.
func (f *follower) note(u *Unreadable) {
	if f.unreadable[u.Key] == u.Revision {
		return
	}
	f.unreadable[u.Key] = u.Revision
	f.log.Error("a record in the store cannot be read; what was there before stays live: run scriptctl doctor",
		"record", u.Key, "revision", u.Revision, "error", u.Reason)
}

// noteFreeze logs a record of the freeze that cannot be read.
func (f *follower) noteFreeze(freeze *script.Freeze) {
	if freeze.Unreadable != "" {
		f.log.Error("the record of the freeze cannot be read; the registry is frozen: run scriptctl thaw, or scriptctl freeze again",
			"revision", freeze.Revision, "error", freeze.Unreadable)
	}
}

// noteAll logs which records the transaction made unreadable, and which it repaired.
func (f *follower) noteAll(t Transaction) {
	for i := range t.Unreadable {
		f.note(&t.Unreadable[i])
	}
	if len(f.unreadable) == 0 {
		return
	}
	for o := range t.Objects() {
		if _, was := f.unreadable[o.Key()]; was {
			delete(f.unreadable, o.Key())
			f.log.Info("a record can be read again", "record", o.Key(), "revision", t.Revision)
		}
	}
}

func (f *follower) at() script.Revision { return script.Revision(f.position.Load()) }

// step is what a watch yields.
type step struct {
	t   Transaction
	err error
}

func (f *follower) step(s step) error {
	if s.err != nil {
		if errors.Is(s.err, ErrForgotten) || script.KindOf(s.err) == script.Internal {
			f.located = false
		}
		return s.err
	}
	if s.t.Revision <= f.at() {
		return nil
	}
	if !s.t.Foreign && s.t.Written != f.written+1 { // a write may have come before the look that would have found it behind
		f.located = false
		return fmt.Errorf("%w (revision %d is the write number %d after number %d)", errRewound, s.t.Revision, s.t.Written, f.written)
	}
	if s.t.Freeze != nil {
		f.freeze(*s.t.Freeze)
	} else {
		f.apply(s.t)
	}
	f.position.Store(int64(s.t.Revision))
	if !s.t.Foreign {
		f.head.Store(int64(s.t.Revision))
		f.written = s.t.Written
	}
	f.pulse()
	return nil
}

// apply hands on a transaction.
func (f *follower) apply(t Transaction) {
	f.noteAll(t)
	for _, p := range f.projections {
		p.Apply(t)
	}
}

// freeze hands on another freeze of the registry.
func (f *follower) freeze(freeze script.Freeze) {
	f.noteFreeze(&freeze)
	for _, p := range f.projections {
		if p, ok := p.(Freezing); ok {
			p.Frozen(freeze)
		}
	}
}

// look is what the store says of its head, and what that was at least before.
type look struct {
	head, before script.Revision
	err          error
}

// compare finds out whether the watch has gone silent, and whether the projections
// are up to date.
func (f *follower) compare(l look) error {
	switch {
	case l.err != nil:
		return fmt.Errorf("read the head: %w", l.err)
	case l.head < l.before:
		f.located = false
		return errRewound
	case f.waiting && f.stalled == f.at(): // for a whole interval
		return errBehind
	}
	f.waiting, f.due, f.stalled = true, l.head, f.at()
	f.pulse()
	return nil
}

// pulse tells the projections, once they are, that they are up to date.
func (f *follower) pulse() {
	if !f.waiting || f.at() < f.due {
		return
	}
	f.waiting = false
	for _, p := range f.projections {
		if p, ok := p.(Pulsed); ok {
			p.Pulse()
		}
	}
}

// heads looks at the store's head, now and then at each interval, until ctx is done.
func (f *follower) heads(ctx context.Context) <-chan look {
	looks := make(chan look)
	go func() {
		ticker := time.NewTicker(PulseInterval)
		defer ticker.Stop()
		for {
			l := look{before: script.Revision(f.head.Load())}
			ask, cancel := context.WithTimeout(ctx, PulseInterval)
			l.head, l.err = f.readHead(ask)
			cancel()
			select {
			case looks <- l:
			case <-ctx.Done():
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return looks
}

// watch runs a watch from the position until ctx is done or it fails.
func (f *follower) watch(ctx context.Context) <-chan step {
	steps, after := make(chan step), f.at()
	go func() {
		send := func(s step) bool {
			select {
			case steps <- s:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for t, err := range f.store.Watch(ctx, after) {
			if !send(step{t, err}) || err != nil {
				return
			}
		}
		send(step{err: errors.New("the watch ended")})
	}()
	return steps
}
