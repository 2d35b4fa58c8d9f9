package sim

import (
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// process is an agent's process: what is lost when it dies. The follower knows it as
// its state, its feed and its reporter.
type process struct {
	agent    *agent
	ctx      context.Context
	die      context.CancelFunc
	dead     atomic.Bool
	done     chan struct{}
	follower *follow.Follower

	table      *cache.Table
	cursor     follow.Cursor
	incomplete []script.Object

	mu       sync.Mutex
	compiled map[script.Digest]int // attempts
	status   *eventv1.Status       // the last
}

var (
	_ follow.State    = (*process)(nil)
	_ follow.Feed     = (*process)(nil)
	_ follow.Reporter = (*process)(nil)
)

// load makes live what is on the disk.
func (p *process) load() {
	a, d := p.agent, p.agent.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	p.cursor = d.cursor
	for name, item := range d.entries {
		r := item.Object.Release
		var e eventv1.Entry
		if _, err := a.trusted.Open(item.Sealed, &e); err != nil {
			a.w.violate("%s cannot believe what it has on disk of %s: %v", a.name, name, err)
		}
		p.table.Update([]*cache.Release{cache.NewRelease(*r)}, nil)
		if d.sources[r.Active.Digest] == nil {
			p.incomplete = append(p.incomplete, item.Object)
		}
		a.mu.Lock()
		if r.Revision < a.reached[name] {
			a.w.violate("%s starts with %s of revision %d, where %d was live", a.name, name, r.Revision, a.reached[name])
		}
		a.reached[name] = r.Revision
		a.mu.Unlock()
	}
}

const keyPrefix = "releases/"

// nameOf returns the script whose release has the key.
func nameOf(key string) script.Name {
	tenant, name, _ := strings.Cut(strings.TrimPrefix(key, keyPrefix), "/")
	return script.Name{Tenant: tenant, Script: name}
}

// Cursor implements follow.State.
func (p *process) Cursor() follow.Cursor { return p.cursor }

// Revision implements follow.State.
func (p *process) Revision(key string) script.Revision {
	if r := p.table.Get(strings.TrimPrefix(key, keyPrefix)); r != nil {
		return r.Revision
	}
	return 0
}

// Live implements follow.State.
func (p *process) Live() iter.Seq[string] {
	return func(yield func(string) bool) {
		for r := range p.table.All() {
			if !yield(wire.ReleaseKey(r.Name)) {
				return
			}
		}
	}
}

// Incomplete implements follow.State.
func (p *process) Incomplete() []script.Object { return p.incomplete }

// HasSource implements follow.State.
func (p *process) HasSource(d script.Digest) bool { return p.agent.disk.has(d) }

// PutSources implements follow.State.
func (p *process) PutSources(sources map[script.Digest][]byte) error {
	for d, content := range sources {
		if script.DigestOf(content) != d {
			p.agent.w.violate("%s stores %.20q under another's digest", p.agent.name, content)
		}
	}
	return p.agent.disk.putSources(p.ctx, sources)
}

// Prepare implements follow.State.
func (p *process) Prepare(_ context.Context, r script.Release, content []byte, _ bool) error {
	if content == nil {
		content = p.agent.disk.source(r.Active.Digest)
	}
	if script.DigestOf(content) != r.Active.Digest {
		p.agent.w.violate("%s compiles %.20q for %s of revision %d", p.agent.name, content, r.Name, r.Revision)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compiled[r.Active.Digest]++
	switch {
	case strings.HasPrefix(string(content), badSource):
		return script.Errorf(script.Script, "", "cannot be compiled")
	case strings.HasPrefix(string(content), shySource) && p.compiled[r.Active.Digest] == 1:
		return script.Errorf(script.Internal, "", "the compiler is not in the mood")
	}
	return nil
}

// Commit implements follow.State. Nothing may go live that was never committed, nor
// anything older than what was.
func (p *process) Commit(put []follow.Item, removed []string) error {
	a := p.agent
	if err := a.disk.commit(p.ctx, put, removed); err != nil {
		return err
	}
	if p.dead.Load() {
		return errDead
	}
	p.makeLive(put, removed)
	return nil
}

// makeLive swaps releases.
func (p *process) makeLive(put []follow.Item, removed []string) {
	a := p.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	live := make([]*cache.Release, 0, len(put))
	for _, item := range put {
		if item.Sealed == nil {
			continue // live already: its source is back
		}
		r := *item.Object.Release
		if made, ok := a.w.truth.find(r.Name, r.Revision); !ok || made.sum != wire.Fingerprint(r) {
			a.w.violate("%s makes %s of revision %d live, which was never committed so", a.name, r.Name, r.Revision)
		}
		if r.Revision < a.reached[r.Name] {
			a.w.violate("%s goes back from revision %d of %s to %d", a.name, a.reached[r.Name], r.Name, r.Revision)
		}
		if !a.tenants.Matches(r.Name.Tenant) {
			a.w.violate("%s makes %s live, which it does not follow", a.name, r.Name)
		}
		if !a.disk.has(r.Active.Digest) {
			a.w.violate("%s makes %s live without its source", a.name, r.Name)
		}
		a.reached[r.Name] = r.Revision
		delete(a.drifted, r.Name)
		live = append(live, cache.NewRelease(r))
	}
	gone := make([]script.Name, 0, len(removed))
	for _, key := range removed {
		gone = append(gone, nameOf(key))
		a.remove(p, nameOf(key))
	}
	p.table.Update(live, gone)
}

// remove notes that a script is gone. a.mu is held.
func (a *agent) remove(p *process, name script.Name) {
	if a.drifted[name] {
		delete(a.drifted, name)
		return
	}
	r := p.live(name)
	if r == nil {
		return
	}
	gone, ok := a.w.truth.deletedAfter(name, r.Revision)
	if !ok {
		a.w.violate("%s removes %s of revision %d, which was not deleted", a.name, name, r.Revision)
	}
	a.reached[name] = max(a.reached[name], gone)
}

// Reseal implements follow.State.
func (p *process) Reseal(items []follow.Item) error { return p.agent.disk.reseal(p.ctx, items) }

// Keys implements follow.State.
func (p *process) Keys() []string { return p.agent.disk.keys() }

// Checksum implements follow.State.
func (p *process) Checksum(kind script.ObjectKind, again int, leftOut []string) wire.Sum {
	if kind != script.Releases {
		return wire.Sum{}
	}
	names := make([]string, len(leftOut))
	for i, key := range leftOut {
		names[i] = strings.TrimPrefix(key, keyPrefix)
	}
	return p.table.Checksum(again, names...)
}

// Check implements follow.State.
func (p *process) Check(key string) (wire.Sum, bool) {
	return p.table.Check(strings.TrimPrefix(key, keyPrefix))
}

// SaveCursor implements follow.State.
func (p *process) SaveCursor(c follow.Cursor) error { return p.agent.disk.saveCursor(p.ctx, c) }

// subjects of the fleet.
var subjects = wire.Subjects{Prefix: wire.DefaultPrefix}

// Subscribe implements follow.Feed.
func (p *process) Subscribe(_ context.Context, h follow.Handler) error {
	group := p.agent.tenants.Group()
	event, beacon, rollCall := subjects.Event(group), subjects.Beacon(group), subjects.RollCall()
	p.agent.peer.attach(
		func(subject string) bool { return subject == event || subject == beacon || subject == rollCall },
		func(m message) {
			switch m.subject {
			case event:
				h.Event(m.data)
			case beacon:
				h.Beacon(m.data)
			case rollCall:
				h.RollCall(m.data)
			}
		},
		h.Connected,
	)
	return nil
}

// Report implements follow.Reporter. The status must be true.
func (p *process) Report(_ context.Context, s *eventv1.Status) error {
	if p.dead.Load() {
		return errDead // nobody says good-bye from there
	}
	p.agent.checkStatus(p, s)
	p.mu.Lock()
	p.status = s
	p.mu.Unlock()
	data, err := seal.SealStatus(s)
	if err != nil {
		return err
	}
	if !p.agent.peer.publish(message{subject: subjects.Status(p.agent.name), data: data}) {
		return script.Errorf(script.Unavailable, "", "not connected")
	}
	return nil
}
