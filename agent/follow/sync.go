package follow

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stageBytes of sources that travel with a sync are held in memory; then they go
// to disk, where they wait for their releases. As much is held of those that are
// fetched.
const stageBytes = 32 << 20

// sync brings the state from the cursor to the registry's head. Releases go live
// when the whole answer is in; after an error nothing has changed, but for
// sources that wait on disk.
func (a *applier) sync(ctx context.Context, from Cursor) outcome {
	out := outcome{kind: jobSync, began: time.Now(), cursor: from}
	answer, err := a.receive(ctx, from)
	if err != nil {
		out.err = err
		return out
	}
	otherFleet := answer.head.Fleet != from.Fleet
	if otherFleet && from.Fleet != "" {
		a.log.Warn("the registry belongs to another fleet now; its snapshot replaces everything", "was", from.Fleet, "is", answer.head.Fleet)
	}
	before := a.failing
	if otherFleet {
		a.failing, a.changed = map[string]*failing{}, true
	}
	a.ready(ctx, answer.chosen.candidates, answer.sources)
	gone := a.goneFrom(answer, from)
	if err = context.Cause(ctx); err == nil {
		err = a.commit(answer.chosen.candidates, gone)
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
	a.forget(answer)
	out.cursor = answer.head
	a.saveCursor(out.cursor)
	return out
}

// answer is what a Sync brought.
type answer struct {
	head    Cursor
	full    bool
	keys    map[string]struct{} // of all objects, when full
	chosen  selection
	sources map[script.Digest][]byte
	bytes   int
}

// receive takes in the whole stream.
func (a *applier) receive(ctx context.Context, from Cursor) (*answer, error) {
	// A registry under load may need longer: giving up on it each time after the
	// same while would only add to the load.
	ctx, silence := withSilenceLimit(ctx, min(idleTimeout, answerTimeout<<min(a.silent, 10)))
	defer silence.stop()
	all := &answer{keys: map[string]struct{}{}, sources: map[script.Digest][]byte{}}
	// Whoever lost its cursor still has its sources.
	without := from == Cursor{} && hasAny(a.state.Live())
	for resp, err := range a.registry.Sync(ctx, from, without) {
		if err != nil {
			err = silence.explain(err)
			if errors.Is(err, errSilent) {
				a.silent++
			}
			return nil, err
		}
		silence.pause()
		a.silent = 0
		if err := all.begin(resp, from); err != nil {
			return nil, err
		}
		a.take(ctx, all, from, resp.GetObjects(), resp.GetSources())
		silence.heard()
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case all.head.Fleet == "":
		return nil, errors.New("the registry ended its answer before it began")
	}
	return all, nil
}

// begin takes in what every response says of the answer, and refuses what no
// sound registry says.
func (all *answer) begin(resp *registryv1.SyncResponse, from Cursor) error {
	head := Cursor{Fleet: resp.GetFleet(), Revision: script.Revision(resp.GetHeadRevision())}
	switch {
	case head.Fleet == "":
		return errors.New("the registry does not say which fleet it belongs to")
	case all.head.Fleet != "" && (all.head.Fleet != head.Fleet || all.full != resp.GetFull()):
		return errors.New("the registry contradicts itself within one answer")
	case head.Fleet != from.Fleet && !resp.GetFull():
		return script.Errorf(script.Invalid, "fleet", "the registry of fleet %.80q sent a difference to a follower of fleet %.80q", head.Fleet, from.Fleet)
	case head.Fleet == from.Fleet && head.Revision < from.Revision:
		return script.Errorf(script.Conflict, "head_revision",
			"the registry is at revision %d, behind this agent's %d: was it restored from a backup? Restore with a revision bump, or remove the agent's state folder",
			head.Revision, from.Revision)
	}
	all.head, all.full = head, resp.GetFull()
	return nil
}

// take adds objects and sources to the answer. When the sources grow too large
// for memory, the releases so far are made ready, which stores them.
func (a *applier) take(ctx context.Context, all *answer, from Cursor, objects []*eventv1.Object, sources []*scriptv1.Source) {
	if all.full {
		for _, o := range objects {
			all.keys[o.GetKey()] = struct{}{}
		}
	}
	a.choose(&all.chosen, objects, all.head.Fleet != from.Fleet)
	for d, content := range a.verified(sources) {
		all.sources[d] = content
		all.bytes += len(content)
	}
	if all.bytes >= stageBytes {
		a.ready(ctx, all.chosen.candidates, all.sources)
		all.sources, all.bytes = map[script.Digest][]byte{}, 0
	}
}

// forget drops what failed of scripts that a full answer leaves out.
func (a *applier) forget(all *answer) {
	for key := range a.failing {
		if _, there := all.keys[key]; all.full && !there {
			delete(a.failing, key)
			a.changed = true
		}
	}
}

// goneFrom returns the live scripts that a full answer leaves out, and those
// whose live release is of another fleet and that have none of this fleet to
// take its place: revisions of two fleets do not compare, so that one would
// outlive all that follow it. If the fleet before is not known, a release tells
// by its revision, which within a fleet never goes down.
func (a *applier) goneFrom(all *answer, from Cursor) []script.Name {
	if !all.full {
		return nil
	}
	stale := func(string) bool { return false }
	if all.head.Fleet != from.Fleet {
		stale = func(key string) bool {
			at, chosen := all.chosen.at[key]
			if !chosen {
				return true
			}
			c := all.chosen.candidates[at]
			return c.err != nil && (from.Fleet != "" || a.state.Revision(key) > c.Release.Revision)
		}
	}
	var gone []script.Name
	for key := range a.state.Live() {
		if _, there := all.keys[key]; there && !stale(key) {
			continue
		}
		if name, err := nameOf(key); err == nil {
			gone = append(gone, name)
		}
	}
	return gone
}

// nameOf returns the script whose release has the key.
func nameOf(key string) (script.Name, error) {
	return script.ParseName(strings.TrimPrefix(key, "releases/"))
}

func hasAny(keys iter.Seq[string]) bool {
	for range keys {
		return true
	}
	return false
}
