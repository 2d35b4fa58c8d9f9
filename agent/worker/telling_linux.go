package worker

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// telling is the queue of changes that the agent has not sent to a tenant's process yet.
type telling struct {
	mu      sync.Mutex
	waiting []*told // the agent may be sending the first ones
	running bool
	number  int                 // of the last change
	has     int                 // of the last change that the agent need not send any more
	late    int                 // of the last change that no commit waits for; calls do, until has reaches it
	renewed map[script.Name]int // scripts whose renewal no process has yet, by the last change with one
	lacking map[string]lack     // releases that no process has yet, by their keys
	given   map[string]lack     // what was lacking until the process that begins to serve got it; nil once it serves
}

// everything is the key of what a tenant lacks until it has its first process: all its releases.
const everything = ""

// lack is a release that no process has yet.
type lack struct {
	first, last int             // changes with it
	above       script.Revision // it is above this revision
	newest      script.Revision // the release of the last change is above this revision
}

// told is one change of the queue.
type told struct {
	change *change
	done   chan struct{}
}

// renews reports whether there is a change that renews the script, and no process has it.
func (t *telling) renews(name script.Name) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.renewed[name] > 0
}

// tell queues the change for the process, after those before. If the process is behind
// already, the result is nil: the commit does not wait for the change, calls do.
func (t *tenant) tell(c *change) *told {
	c.renewed = t.renewed(c) // which can be seen as long as it is not live
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	t.telling.number++
	c.number = t.telling.number
	for name := range c.renewed {
		t.telling.renewed[name] = c.number
	}
	for key, above := range t.news(c) {
		t.telling.lacks(key, c.number, above)
	}
	if !c.again { // which is no commit
		t.last.Store(c)
	}
	next := &told{change: c, done: make(chan struct{})}
	t.telling.waiting = append(t.telling.waiting, next)
	if !t.telling.running {
		t.telling.running = true
		go t.tellAll()
	}
	if t.telling.late > t.telling.has {
		t.callsWaitFor(c)
		return nil
	}
	return next
}

// news yields the keys of the releases that the change brings or removes, each with a revision that it
// is above.
func (t *tenant) news(c *change) iter.Seq2[string, script.Revision] {
	return func(yield func(string, script.Revision) bool) {
		for _, o := range c.put {
			if r := o.Release; r != nil && t.pool.cfg.Node.Table.Revision(r.Name.String()) != r.Revision && !yield(o.Key(), r.Revision-1) {
				return
			}
		}
		for _, key := range c.gone { // their revisions are not known here
			at := t.pool.cfg.Node.Position(time.Now()).Revision
			if strings.HasPrefix(key, string(script.Releases)+"/") && !yield(key, at) {
				return
			}
		}
	}
}

// lacks notes that no process has the release of the change yet. mu is held.
func (t *telling) lacks(key string, number int, above script.Revision) {
	merge(t.lacking, key, lack{first: number, last: number, above: above, newest: above})
}

// merge adds a lack to those of the key.
func merge(all map[string]lack, key string, more lack) {
	if l, ok := all[key]; ok {
		newer := l
		if more.last > l.last {
			newer = more
		}
		more = lack{first: min(l.first, more.first), last: newer.last, above: min(l.above, more.above), newest: newer.newest}
	}
	all[key] = more
}

// lag returns a revision above which the process may lack releases that nobody but calls waits for;
// ok is false if it lacks none of them.
func (t *tenant) lag() (above script.Revision, ok bool) {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	return t.telling.lag()
}

// lag returns a revision that all releases are above which no process has and no commit waits for.
// mu is held.
func (t *telling) lag() (above script.Revision, ok bool) {
	for _, l := range t.lacking {
		if l.first <= t.late && (!ok || l.above < above) {
			above, ok = l.above, true
		}
	}
	return above, ok
}

func (t *tenant) tellAll() {
	for t.tellNext() {
	}
}

// tellNext reports whether there were changes to tell, and tells those that wait together:
// who is behind catches up. The queue is as it is for a process that takes over meanwhile:
// that one holds t.mu.
func (t *tenant) tellNext() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.telling.mu.Lock()
	if len(t.telling.waiting) == 0 {
		t.telling.running = false
		t.telling.mu.Unlock()
		return false
	}
	next := union(t.telling.waiting)
	t.telling.mu.Unlock()
	t.finish(next.number, t.apply(next))
	return true
}

// union returns one change that has the effect of all, one after the other.
func union(waiting []*told) *change {
	if len(waiting) == 1 {
		return waiting[0].change
	}
	all := &change{renewed: map[script.Name]script.Revision{}}
	put, gone := map[string]script.Object{}, map[string]bool{}
	for _, next := range waiting {
		c := next.change
		for _, o := range c.put {
			put[o.Key()] = o
			delete(gone, o.Key())
		}
		for _, key := range c.gone {
			delete(put, key)
			gone[key] = true
		}
		maps.Copy(all.renewed, c.renewed)
		all.settings, all.number, all.again = cmp.Or(c.settings, all.settings), c.number, all.again || c.again
	}
	for _, key := range slices.Sorted(maps.Keys(put)) {
		all.put = append(all.put, put[key])
	}
	all.gone = slices.Sorted(maps.Keys(gone))
	return all
}

// finish takes the changes up to the number off the queue. has says whether the process has
// them all; if not, the next process gets them when it starts.
func (t *tenant) finish(number int, has bool) {
	t.telling.mu.Lock()
	_, lagged := t.telling.lag()
	for len(t.telling.waiting) > 0 && t.telling.waiting[0].change.number <= number {
		close(t.telling.waiting[0].done)
		t.telling.waiting = t.telling.waiting[1:]
	}
	if has {
		maps.DeleteFunc(t.telling.renewed, func(_ script.Name, by int) bool { return by <= number })
		t.telling.gets(number)
	} else {
		t.telling.late = max(t.telling.late, number) // the agent goes on without a process
	}
	t.telling.has = max(t.telling.has, number)
	t.show()
	t.telling.mu.Unlock()
	if has && lagged {
		t.pool.cfg.Changed()
	}
}

// gets removes what is not lacking once a process has the changes up to the number. mu is held.
func (t *telling) gets(number int) {
	for key, l := range t.lacking {
		switch {
		case l.first > number:
			continue
		case l.last > number: // it has yet to get what replaces that
			t.lacking[key] = lack{first: number + 1, last: l.last, above: l.newest, newest: l.newest}
		default:
			delete(t.lacking, key)
		}
		if t.given != nil {
			merge(t.given, key, l)
		}
	}
}

// begin makes p, which begins to serve, the process of the tenant.
func (t *tenant) begin(p *process) {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	t.telling.given = map[string]lack{}
	t.swap(&state{process: p})
}

// begun notes whether the process serves. If not, none has what that one got, and nobody waits for it.
func (t *tenant) begun(serves bool) {
	t.telling.mu.Lock()
	given := t.telling.given
	t.telling.given = nil
	if !serves {
		for key, l := range given {
			merge(t.telling.lacking, key, l)
		}
		t.telling.late = max(t.telling.late, t.telling.has)
		t.swap(&state{})
	}
	t.telling.mu.Unlock()
	if !serves && len(given) > 0 {
		t.pool.cfg.Changed()
	}
}

// takeUp returns what is live of the tenant, and the last change, which may not be live yet;
// nil if there was none. All changes before are live. t.mu is held.
func (t *tenant) takeUp() (live, last *change) {
	for {
		last = t.last.Load()
		live = t.live()
		if t.last.Load() == last { // else what is live may have a part of what is newer
			return live, last
		}
	}
}

// noteAll notes the changes that a process has which takes over with what takeUp returned. The
// agent does not send them again. t.mu is held.
func (t *tenant) noteAll(last *change) {
	t.telling.mu.Lock()
	waiting := slices.Clone(t.telling.waiting)
	t.telling.mu.Unlock()
	for _, c := range waiting {
		if last != nil && c.change.number <= last.number {
			t.note(c.change)
		}
	}
}

// await waits until the process has the change, which tell queued when the commit began, or
// until the tenant has held up others for as long as it may.
func (t *tenant) await(c *told, began time.Time) {
	now := time.Now()
	patience := time.Duration(t.patience.TokensAt(now))
	timer := time.NewTimer(patience - now.Sub(began))
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		t.leaveBehind(c)
	}
	t.patience.ReserveN(now, int(min(time.Since(now), promptly)))
}

// leaveBehind says that nobody waits for the change any more but the calls that come from
// now on, if it is not done.
func (t *tenant) leaveBehind(c *told) {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	if c.change.number > t.telling.has {
		t.callsWaitFor(c.change)
	}
}

// callsWaitFor has calls that come from now on wait for the change. t.telling.mu is held.
func (t *tenant) callsWaitFor(c *change) {
	t.telling.late = max(t.telling.late, c.number)
	t.show()
}

// show says to calls how far the process is, if any waits for that. t.telling.mu is held.
func (t *tenant) show() {
	if s := t.state.Load(); s.late != t.telling.late || s.held() && s.has != t.telling.has {
		t.swap(&state{process: s.process, refused: s.refused})
	}
}

// drop has calls wait for the next process, if p is the one that gets them.
func (t *tenant) drop(p *process) {
	t.telling.mu.Lock()
	defer t.telling.mu.Unlock()
	if s := t.state.Load(); s.process == p {
		t.swap(&state{})
	}
}

// swap puts another state in place of the one before. t.telling.mu is held.
func (t *tenant) swap(next *state) {
	next.changed, next.has, next.late = make(chan struct{}), t.telling.has, t.telling.late
	close(t.state.Swap(next).changed)
}
