package follow

import (
	"context"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// lookAgain is how many live objects of each kind are read again at each beacon, so that a bit
// that flipped in memory shows within two beacons for up to twice as many.
const lookAgain = 4096

// check compares the state with the beacon. The group has nothing between the cursor
// and the beacon's head, so that the cursor moves on to there.
func (a *applier) check(ctx context.Context, at Cursor, b *beacon) outcome {
	out := outcome{kind: jobCheck, began: time.Now(), cursor: at}
	if out.err = context.Cause(ctx); out.err != nil {
		return out
	}
	out.cursor = b.moveOn(at)
	a.unreadable = b.unreadable
	out.checked, out.agrees = a.compare(b.sums, lookAgain)
	return out
}

// compare compares what is live with the registry's checksums, kind by kind: of a kind
// that has none there is nothing to be said. What could not be made live counts as if
// it were: that it is not is known, and no drift. What the registry cannot read does not
// count.
func (a *applier) compare(with sums, again int) (compared, equal bool) {
	equal = true
	for _, kind := range kinds {
		sum, readable := a.sumOf(kind, again)
		want, there := with[kind]
		if !there || !readable {
			continue
		}
		compared = true
		equal = equal && sum == want
	}
	return compared, compared && equal
}

// sumOf returns the sum over the live objects of the kind, with what failed in the
// place of what is live instead. It is of no use if some of what failed cannot be read.
func (a *applier) sumOf(kind script.ObjectKind, again int) (sum wire.Sum, readable bool) {
	var leftOut []string
	var failing wire.Sum
	readable = true
	for key := range a.unreadable {
		if of, _ := kindOf(key); of == kind {
			leftOut = append(leftOut, key)
		}
	}
	for key, f := range a.failing {
		if a.unreadable.has(key) || f.item.Object.Kind() != kind {
			continue
		}
		leftOut = append(leftOut, key)
		failing.Add(wire.FingerprintObject(f.item.Object))
		readable = readable && !isUnread(f.item.Object)
	}
	sum = a.state.Checksum(kind, again, leftOut)
	sum.Add(failing)
	return sum, readable
}

// look compares an object of a full answer, which is not newer than what is known, with
// that. It is the same if it is live, or failed, as it is. It differs if it is to take the
// place of what is live: that is not sound, or cannot be newer than the answer.
func (a *applier) look(o object, head script.Revision) (differs, same bool) {
	if o.err != nil {
		return false, false
	}
	want := wire.FingerprintObject(o.Object) // the revision is in it
	if f := a.failing[o.Key]; f != nil {
		if wire.FingerprintObject(f.item.Object) == want {
			return false, !o.Object.Deleted()
		}
		return o.Object.Revision() >= f.item.Object.Revision() || f.item.Object.Revision() <= head, false
	}
	live, sound := a.state.Check(o.Key)
	if live == want {
		return false, !o.Object.Deleted()
	}
	revision := a.state.Revision(o.Key)
	return !sound || o.Object.Revision() >= revision || revision <= head, false
}

// reseal keeps items that are live, or that failed, in the envelopes that they came
// in now.
func (a *applier) reseal(items []Item) {
	live := make([]Item, 0, len(items))
	for _, item := range items {
		f := a.failing[item.Key]
		switch {
		case f == nil && a.state.Revision(item.Key) == item.Object.Revision(): // not replaced within the answer
			live = append(live, item)
		case f != nil && f.item.Object.Revision() == item.Object.Revision() && f.item.Sealed != nil:
			f.item = item
		}
	}
	if err := a.state.Reseal(live); err != nil {
		a.log.Warn("what is on disk cannot be rewritten with the registry's new signatures; it is tried again later", "error", err)
	}
}
