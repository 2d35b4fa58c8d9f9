package follow

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stageBytes of sources that travel with a sync are held in memory; then they go
// to disk, where they wait for their releases. As much is held of those that are
// fetched.
const stageBytes = 32 << 20

// sync brings the state from the cursor to the registry's head. Objects go live
// when the whole answer is in; after an error nothing has changed, but for
// sources that wait on disk. A thorough sync asks for everything and compares it
// with what is live.
//
// Events may have moved the cursor on from where the registry was asked: what is newer than
// the answer stays.
func (a *applier) sync(at Cursor, q *question) outcome {
	defer q.close()
	ctx, from, thorough := q.parent, q.job.cursor, q.job.thorough
	out := outcome{kind: jobSync, began: q.began, cursor: at, thorough: thorough}
	a.patience = answerTimeout
	answer, err := a.receive(at, q)
	if err != nil {
		out.err = err
		return out
	}
	otherFleet := answer.head.Fleet != from.Fleet
	if otherFleet && from.Fleet != "" {
		a.log.Warn("the agent changes its fleet, as --adopt-fleet says; the registry's snapshot replaces everything", "was", from.Fleet, "is", answer.head.Fleet)
	}
	out.waited = answer.began.Sub(out.began)
	before := a.failing
	if otherFleet {
		a.failing, a.changed = map[string]*failing{}, true
	}
	a.ready(ctx, answer.chosen.candidates, answer.sources, nil)
	gone := a.goneFrom(answer, from)
	if !otherFleet || from.Fleet == "" {
		out.held = a.guardRemovals(gone, answer.chosen.candidates, at, answer.removals)
	}
	err = context.Cause(ctx)
	switch {
	case err != nil || out.held == nil:
	case otherFleet, !answer.full:
		err = out.held // else the cursor would pass tombstones, or objects of another fleet
	default:
		gone, answer.chosen.candidates = nil, a.withhold(answer.chosen.candidates)
	}
	if err == nil {
		_, err = a.commit(a.holdBack(answer.chosen.candidates), gone)
		if len(gone) == 0 && !otherFleet {
			err = nil // what failed is tried again by itself
		}
	}
	if err != nil {
		// Nothing but another full answer says what is gone, so what failed
		// before must not be forgotten for this one.
		a.failing, out.err = before, err
		return out
	}
	if out.held == nil {
		a.forget(answer)
	}
	clear(a.removed)
	if thorough {
		a.reseal(answer.chosen.same)
	}
	out.cursor, out.sealedBy, out.accepted = answer.head, answer.sealedBy, answer.removals.at
	if behind := at.Fleet == answer.head.Fleet && at.Revision > answer.head.Revision; behind {
		out.cursor = answer.overtaken(at, out.held)
		a.saveCursor(out.cursor)
		return out // there is nothing to compare it with
	}
	again := lookAgain
	if thorough {
		again = math.MaxInt
	}
	out.checked, out.agrees = a.compare(answer.sums, again)
	out.cursor = a.account(answer, at, out)
	a.saveCursor(out.cursor)
	return out
}

// account returns the cursor of an answer, with the removals that it accounts for. What is
// withheld keeps its records, and needs an acceptance since then, until an answer leaves nothing
// to be withheld. A restored registry counts on from less, and an older one does not count.
func (a *applier) account(answer *answer, at Cursor, out outcome) Cursor {
	c := answer.head
	c.Removals, c.Withheld, c.Accepted = at.Removals, at.Withheld, at.Accepted
	if !answer.removals.counted {
		return c
	}
	unremoved := a.unremoved()
	c.Removals = answer.removals.made - unremoved
	switch {
	case at.Removals < 0, out.held == nil && (answer.full || out.agrees):
		c.Withheld, c.Accepted = 0, answer.removals.at
	case out.held != nil:
		c.Withheld = max(0, int64(at.recorded(answer.removals.made))-unremoved)
	}
	return c
}

// overtaken returns the cursor that events brought past the answer. A loss that was accepted
// needs no acceptance any more.
func (all *answer) overtaken(at Cursor, held error) Cursor {
	if held == nil && all.full {
		at.Accepted = max(at.Accepted, all.removals.at)
	}
	return at
}

// answer is what the registry answered.
type answer struct {
	adopt    string // as in applier
	at       Cursor // up to where everything was applied when the answer came
	choice   choice
	head     Cursor
	full     bool
	keys     keys // of all objects, when full
	chosen   selection
	sources  map[script.Digest][]byte
	bytes    int
	removals removals

	began    time.Time // when its first part came
	pages    int
	last     bool
	sums     sums
	sealedBy string
}

// receive takes in the whole stream.
func (a *applier) receive(at Cursor, q *question) (*answer, error) {
	ctx, thorough := q.ctx, q.job.thorough
	all := &answer{adopt: a.adopt, at: at, choice: choice{thorough: thorough, unreadable: keys{}}, keys: keys{}, sources: map[script.Digest][]byte{}}
	err := a.pull(all, q)
	if errors.Is(err, ErrOldRegistry) {
		err = a.pullUnsigned(all, q)
	}
	q.silence.pause()
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case all.head.Fleet == "":
		return nil, errors.New("the registry ended its answer before it began")
	case thorough && !all.full:
		return nil, errors.New("the registry answered with a difference where everything was asked for")
	}
	all.chosen.candidates = append(all.chosen.candidates, all.retains(a.released(&all.chosen))...)
	return all, nil
}

// pull takes in the pages of an answer.
func (a *applier) pull(all *answer, q *question) error {
	for resp, err := range q.responses {
		if err != nil {
			return q.silence.explain(err)
		}
		q.silence.pause()
		p, err := a.open.page(resp.GetPage(), q.request)
		if err == nil {
			a.join(p) // also where the registry serves another fleet, so that it knows of this agent
			err = all.turn(p)
		}
		if err == nil {
			head := Cursor{Fleet: p.GetFleet(), Revision: script.Revision(p.GetHeadRevision())}
			err = all.begin(head, p.GetFull(), q.job.cursor)
		}
		if err != nil {
			a.refusals.note("answer of the registry", err)
			return err
		}
		a.take(q.ctx, all, p.objects, resp.GetSources())
	}
	if q.ctx.Err() == nil && !all.last {
		err := refuse(refusedMalformed, "the registry's answer ended after %d pages, before its last", all.pages)
		a.refusals.note("answer of the registry", err)
		return err
	}
	return nil
}

// join takes in the session that the agent reports in from now on.
func (a *applier) join(p page) {
	if len(p.GetSessionKey()) > 0 {
		a.session = seal.Session{Token: p.GetSession(), Key: p.GetSessionKey()}
	}
}

// turn takes in a page's place in the answer, and refuses one that has none.
func (all *answer) turn(p page) error {
	switch {
	case all.last:
		return refuse(refusedMalformed, "a page of the registry's answer came after the last")
	case int(p.GetNumber()) != all.pages:
		return refuse(refusedMalformed, "page %d of the registry's answer came where number %d was due", p.GetNumber(), all.pages)
	case all.pages > 0 && all.head.Fleet != p.GetFleet():
		return refuse(refusedOtherFleet, "the registry's answer begins as one of fleet %.80q and goes on as one of %.80q", all.head.Fleet, p.GetFleet())
	case all.pages > 0 && all.head.Revision != script.Revision(p.GetHeadRevision()):
		return refuse(refusedMalformed, "the registry's answer leads to revision %d and to %d", all.head.Revision, p.GetHeadRevision())
	}
	all.pages++
	all.last = p.GetLast()
	if all.last {
		all.sums = p.sums
	}
	all.sealedBy = p.sealedBy
	all.removals = removalsOf(p.Page)
	maps.Copy(all.choice.unreadable, keySet(p.GetUnreadable()))
	return nil
}

// begin takes in what every part says of the answer, and refuses what no sound
// registry says.
func (all *answer) begin(head Cursor, full bool, from Cursor) error {
	switch {
	case head.Fleet == "":
		return errors.New("the registry does not say which fleet it belongs to")
	case all.head.Fleet != "" && (all.head.Fleet != head.Fleet || all.full != full):
		return refuse(refusedMalformed, "the registry contradicts itself within one answer")
	case from.Fleet != "" && head.Fleet != from.Fleet && head.Fleet != all.adopt:
		return &heldBack{refuse(refusedOtherFleet,
			"the registry serves fleet %.80s; this agent belongs to fleet %s: run agentd --adopt-fleet %.80s to change it", head.Fleet, from.Fleet, head.Fleet)}
	case head.Fleet != from.Fleet && !full:
		return refuse(refusedOtherFleet, "the registry of fleet %.80q sent a difference to a follower of fleet %.80q", head.Fleet, from.Fleet)
	case head.Fleet == from.Fleet && head.Revision < from.Revision:
		return script.Errorf(script.Conflict, "head_revision",
			"the registry is at revision %d, behind this agent's %d: was it restored from a backup? Restore with a revision bump, or remove the agent's state folder",
			head.Revision, from.Revision)
	}
	if all.head.Fleet == "" {
		all.began = time.Now()
	}
	all.head, all.full = head, full
	all.choice.otherFleet, all.choice.head = head.Fleet != from.Fleet, head.Revision
	all.choice.above = 0
	if head.Fleet == from.Fleet {
		all.choice.above = max(from.Revision, all.at.Revision)
	}
	return nil
}

// take adds objects and sources to the answer. When the sources grow too large
// for memory, the objects so far are made ready, which stores them.
func (a *applier) take(ctx context.Context, all *answer, objects []object, sources []*scriptv1.Source) {
	a.unreadable = all.choice.unreadable
	if all.full {
		for _, o := range objects {
			all.keys[o.Key] = struct{}{}
		}
	}
	a.choose(&all.chosen, objects, all.choice)
	for d, content := range a.verified(sources) {
		all.sources[d] = content
		all.bytes += len(content)
	}
	if all.bytes >= stageBytes {
		a.ready(ctx, all.chosen.candidates, all.sources, nil)
		all.sources, all.bytes = map[script.Digest][]byte{}, 0
	}
}

// leavesOut reports whether a full answer says that there is no object with the key:
// one of a registry that does not know its kind, or cannot read its record, says nothing
// of it.
func (all *answer) leavesOut(key string) bool {
	kind, _ := kindOf(key)
	return !all.keys.has(key) && all.sums.knows(kind) && !all.choice.unreadable.has(key)
}

// retains returns the candidates but for those that a full answer leaves out, or of another fleet.
func (all *answer) retains(candidates []*candidate) []*candidate {
	return slices.DeleteFunc(candidates, func(c *candidate) bool {
		return all.choice.otherFleet || all.full && all.leavesOut(c.Key)
	})
}

// precedes reports whether the answer is older than an object of the revision, which events
// brought meanwhile.
func (all *answer) precedes(revision script.Revision) bool {
	return !all.choice.otherFleet && revision > all.head.Revision
}

// forget drops what failed of objects that a full answer leaves out.
func (a *applier) forget(all *answer) {
	for key, f := range a.failing {
		if all.full && all.leavesOut(key) && !all.precedes(f.item.Object.Revision()) {
			delete(a.failing, key)
			a.changed = true
		}
	}
}

// goneFrom returns the keys of live objects that a full answer leaves out, and of
// those that are of another fleet and have none of this fleet to take their place:
// revisions of two fleets do not compare, so that one would outlive all that follow
// it. If the fleet before is not known, an object tells by its revision, which within
// a fleet never goes down.
func (a *applier) goneFrom(all *answer, from Cursor) []string {
	if !all.full {
		return nil
	}
	stale := func(string) bool { return false }
	if all.head.Fleet != from.Fleet {
		stale = func(key string) bool {
			at, chosen := all.chosen.at[key]
			if !chosen {
				// What the registry cannot read may be of this fleet.
				mayBe := from.Fleet == "" && all.choice.unreadable.has(key) && a.state.Revision(key) <= all.head.Revision
				return !mayBe
			}
			c := all.chosen.candidates[at]
			return c.err != nil && (from.Fleet != "" || a.state.Revision(key) > c.Object.Revision())
		}
	}
	var gone []string
	for key := range a.state.Live() {
		if all.leavesOut(key) && !all.precedes(a.state.Revision(key)) || stale(key) {
			gone = append(gone, key)
		}
	}
	return gone
}

func hasAny(keys iter.Seq[string]) bool {
	for range keys {
		return true
	}
	return false
}
