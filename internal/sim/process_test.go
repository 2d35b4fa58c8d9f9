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
	values     *cache.Values
	tenants    *cache.Tenants
	cursor     follow.Cursor
	incomplete []script.Object
	loaded     map[string]script.Revision // from the disk, by key

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
	for key, item := range d.entries {
		var e eventv1.Entry
		if _, err := a.trusted.Open(item.Sealed, &e); err != nil {
			a.w.violate("%s cannot believe what it has on disk of %s: %v", a.name, key, err)
		}
		p.swap([]script.Object{item.Object}, nil)
		p.loaded[key] = item.Object.Revision()
		for content := range item.Object.Contents {
			if d.sources[content.Digest] == nil {
				p.incomplete = append(p.incomplete, item.Object)
				break
			}
		}
		a.restored(item.Object)
	}
}

// restored notes that an object is live that was on disk.
func (a *agent) restored(o script.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.reachedKeys[o.Key()]
	if o.Release != nil {
		before = a.reached[o.Release.Name]
		a.reached[o.Release.Name] = o.Revision()
	} else {
		a.reachedKeys[o.Key()] = o.Revision()
	}
	if o.Revision() < before {
		a.w.violate("%s starts with %s of revision %d, where %d was live", a.name, o.Key(), o.Revision(), before)
	}
}

const keyPrefix = "releases/"

// nameOf returns the tenant and the rest of the object's key: of a release it is the
// script.
func nameOf(key string) script.Name {
	_, name, _ := strings.Cut(key, "/")
	tenant, name, _ := strings.Cut(name, "/")
	return script.Name{Tenant: tenant, Script: name}
}

// Cursor implements follow.State.
func (p *process) Cursor() follow.Cursor { return p.cursor }

// table has the live objects of one kind.
type table interface {
	Revision(name string) script.Revision
	Names() iter.Seq[string]
	Checksum(again int, leftOut ...string) wire.Sum
	Check(name string) (fingerprint wire.Sum, sound bool)
}

// tableOf returns the table of the object with the key, and its name there.
func (p *process) tableOf(key string) (in table, name string) {
	kind, name, _ := strings.Cut(key, "/")
	switch script.ObjectKind(kind) {
	case script.Values:
		return p.values, name
	case script.Tenants:
		return p.tenants, name
	}
	return p.table, name
}

// Revision implements follow.State.
func (p *process) Revision(key string) script.Revision {
	in, name := p.tableOf(key)
	return in.Revision(name)
}

// Live implements follow.State.
func (p *process) Live() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, prefix := range []string{keyPrefix, "values/", "tenants/"} {
			in, _ := p.tableOf(prefix)
			for name := range in.Names() {
				if !yield(prefix + name) {
					return
				}
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
func (p *process) Prepare(_ context.Context, r script.Release, sources map[script.Digest][]byte, _ bool) error {
	digest := r.RunsOn(p.agent.who()).Digest
	content := sources[digest]
	if content == nil {
		content = p.agent.disk.source(digest)
	}
	if script.DigestOf(content) != digest {
		p.agent.w.violate("%s compiles %.20q for %s of revision %d", p.agent.name, content, r.Name, r.Revision)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compiled[digest]++
	switch {
	case strings.HasPrefix(string(content), badSource):
		return script.Errorf(script.Script, "", "cannot be compiled")
	case strings.HasPrefix(string(content), shySource) && p.compiled[digest] == 1:
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

// makeLive swaps objects.
func (p *process) makeLive(put []follow.Item, removed []string) {
	a := p.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	objects := make([]script.Object, 0, len(put))
	for _, item := range put {
		if item.Sealed == nil {
			continue // live already: its content is back
		}
		objects = append(objects, item.Object)
		if item.Object.Release == nil {
			a.makeObjectLive(item.Object)
			continue
		}
		a.makeReleaseLive(*item.Object.Release)
	}
	for _, key := range removed {
		if isRelease(key) {
			a.remove(p, nameOf(key))
			continue
		}
		a.removeObject(p, key)
	}
	p.swap(objects, removed)
}

// makeReleaseLive notes that a release goes live. a.mu is held.
func (a *agent) makeReleaseLive(r script.Release) {
	if made, ok := a.w.truth.find(r.Name, r.Revision); !ok || made.sum != wire.Fingerprint(r) {
		a.w.violate("%s makes %s of revision %d live, which was never committed so", a.name, r.Name, r.Revision)
	}
	if r.Revision < a.reached[r.Name] {
		a.w.violate("%s goes back from revision %d of %s to %d", a.name, a.reached[r.Name], r.Name, r.Revision)
	}
	if !a.tenants.Matches(r.Name.Tenant) {
		a.w.violate("%s makes %s live, which it does not follow", a.name, r.Name)
	}
	for content := range (script.Object{Release: &r}).Contents {
		if !a.disk.has(content.Digest) {
			a.w.violate("%s makes %s live without its source %v", a.name, r.Name, content.Digest)
		}
	}
	a.reached[r.Name] = r.Revision
	delete(a.drifted, r.Name)
}

// swap changes the tables.
func (p *process) swap(put []script.Object, removed []string) {
	for _, o := range put {
		switch {
		case o.Release != nil:
			p.table.Update([]*cache.Release{cache.NewReleaseOn(p.agent.who(), *o.Release)}, nil)
		case o.Value != nil:
			p.values.Update([]script.Value{*o.Value}, nil)
		default:
			p.tenants.Update([]script.Tenant{*o.Tenant}, nil)
		}
	}
	for _, key := range removed {
		switch name := nameOf(key); {
		case isRelease(key):
			p.table.Update(nil, []script.Name{name})
		case strings.HasPrefix(key, "values/"):
			p.values.Update(nil, []script.ValueKey{{Tenant: name.Tenant, Key: name.Script}})
		default:
			p.tenants.Update(nil, []string{name.Tenant})
		}
	}
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
	prefix := string(kind) + "/"
	names := make([]string, len(leftOut))
	for i, key := range leftOut {
		names[i] = strings.TrimPrefix(key, prefix)
	}
	in, _ := p.tableOf(prefix)
	return in.Checksum(again, names...)
}

// Check implements follow.State.
func (p *process) Check(key string) (wire.Sum, bool) {
	in, name := p.tableOf(key)
	return in.Check(name)
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
func (p *process) Report(_ context.Context, s *eventv1.Status, in seal.Session) error {
	if p.dead.Load() {
		return errDead // nobody says good-bye from there
	}
	p.agent.checkStatus(p, s)
	p.mu.Lock()
	p.status = s
	p.mu.Unlock()
	data, err := seal.SealStatus(s, in)
	if err != nil {
		return err
	}
	if !p.agent.peer.publish(message{subject: subjects.Status(p.agent.name), data: data}) {
		return script.Errorf(script.Unavailable, "", "not connected")
	}
	return nil
}
