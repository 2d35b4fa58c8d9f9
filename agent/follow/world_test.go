package follow_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// world is a registry and its feed, with faults. Its events reach handlers after
// a delay, or never, or twice.
type world struct {
	t *testing.T

	mu       sync.Mutex
	random   *rand.Rand
	faults   faults
	fleet    string
	head     script.Revision
	last     script.Revision // the revision of the last event
	now      map[string]script.Release
	changed  map[string]script.Revision                   // by key, tombstones included
	commits  map[string]map[script.Revision]script.Digest // everything that ever was
	sources  map[script.Digest][]byte
	handlers map[follow.Handler]struct{}
	inline   bool // sources are small: all travel with events
	large    bool // none does
	syncs    int
	fulls    int
}

// faults are probabilities.
type faults struct {
	lose, double, foreign, garble float64
	delay                         time.Duration // at most, of a message
	silent                        bool          // nothing comes over the feed
	down                          bool          // the registry answers nothing
	cut, slow, hide               float64       // a sync breaks off, takes long; a source is not sent
	disk                          float64       // a commit fails
	floor                         float64       // a sync is answered with a full snapshot
	hang                          bool          // the registry takes calls and answers none
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return &world{
		t: t, random: rand.New(rand.NewPCG(seed, 7)), fleet: "fleet-1", head: 1, last: 1,
		now: map[string]script.Release{}, changed: map[string]script.Revision{},
		commits: map[string]map[script.Revision]script.Digest{},
		sources: map[script.Digest][]byte{}, handlers: map[follow.Handler]struct{}{},
	}
}

func (w *world) chance(p float64) bool { return p > 0 && w.random.Float64() < p }

// commit changes scripts in one transaction: an empty source deletes.
func (w *world) commit(changes map[string]string) script.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head += script.Revision(1 + w.random.IntN(3)) // others write to the same store
	e := &eventv1.Event{Fleet: w.fleet, Revision: int64(w.head), PreviousRevision: int64(w.last)}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		src := []byte(changes[name])
		r := w.now[name]
		r.Name = script.Name{Tenant: "acme", Script: name}
		r.Revision = w.head
		key := wire.ReleaseKey(r.Name)
		if len(src) == 0 {
			r = script.Release{Name: r.Name, Revision: w.head, Latest: r.Latest, Deleted: true}
			delete(w.now, name)
		} else {
			r.Latest++
			r.Enabled = true
			r.Active = script.Version{Number: r.Latest, Digest: script.DigestOf(src), Engine: "fake", Size: len(src)}
			r.Retained = []script.Version{r.Active}
			w.sources[r.Active.Digest] = src
			w.now[name] = r
			if !w.large && (w.inline || w.random.IntN(2) == 0) { // else too large to travel with the event
				e.Sources = append(e.Sources, &scriptv1.Source{Digest: wire.FromDigest(r.Active.Digest), Content: src})
			}
		}
		w.changed[key] = w.head
		if w.commits[key] == nil {
			w.commits[key] = map[script.Revision]script.Digest{}
		}
		w.commits[key][w.head] = r.Active.Digest
		e.Objects = append(e.Objects, wire.FromReleaseObject(r))
	}
	w.last = w.head
	w.send(func(h follow.Handler) { h.Event(e) })
	return w.head
}

// rebuild empties the registry: another fleet, whose revisions start low.
func (w *world) rebuild() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fleet, w.head, w.last = "fleet-2", 3, 3
	clear(w.now)
	clear(w.changed)
	clear(w.commits)
}

func (w *world) beacon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &eventv1.Beacon{Fleet: w.fleet, HeadRevision: int64(w.head)}
	w.send(func(h follow.Handler) { h.Beacon(b) })
}

// send delivers a message to every handler, each with its own fate. w.mu is held.
func (w *world) send(deliver func(follow.Handler)) {
	for h := range w.handlers {
		if w.chance(w.faults.foreign) {
			h.Event(&eventv1.Event{Fleet: "stray", Revision: int64(w.head + 1000), PreviousRevision: 0})
			h.Beacon(&eventv1.Beacon{Fleet: "stray", HeadRevision: 1 << 40})
		}
		if w.chance(w.faults.garble) {
			h.Malformed()
		}
		if w.faults.silent || w.chance(w.faults.lose) {
			continue
		}
		copies := 1
		if w.chance(w.faults.double) {
			copies = 2
		}
		for range copies {
			if w.faults.delay == 0 {
				deliver(h)
				continue
			}
			time.AfterFunc(time.Duration(w.random.Int64N(int64(w.faults.delay))), func() { deliver(h) })
		}
	}
}

// Subscribe implements follow.Feed.
func (w *world) Subscribe(ctx context.Context, h follow.Handler) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[h] = struct{}{}
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.handlers, h)
	})
	h.Connected(true)
	return nil
}

var errDown = script.Errorf(script.Unavailable, "", "the registry is down")

// Sync implements follow.Registry.
func (w *world) Sync(ctx context.Context, since follow.Cursor, without bool) iter.Seq2[*registryv1.SyncResponse, error] {
	w.mu.Lock()
	w.syncs++
	down, hang, cut, slow := w.faults.down, w.faults.hang, w.chance(w.faults.cut), w.chance(w.faults.slow)
	responses := w.answer(since, without)
	if cut {
		responses = responses[:w.random.IntN(len(responses))]
	}
	pause := time.Duration(w.random.Int64N(int64(500 * time.Millisecond)))
	w.mu.Unlock()
	return func(yield func(*registryv1.SyncResponse, error) bool) {
		if down {
			yield(nil, errDown)
			return
		}
		if hang {
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		for _, resp := range responses {
			if slow {
				select {
				case <-time.After(pause / time.Duration(len(responses))):
				case <-ctx.Done():
					yield(nil, ctx.Err())
					return
				}
			}
			if !yield(resp, nil) {
				return
			}
		}
		if cut {
			yield(nil, errors.New("connection reset by peer"))
		}
	}
}

// answer composes the responses to a sync, as of now. w.mu is held.
func (w *world) answer(since follow.Cursor, without bool) []*registryv1.SyncResponse {
	full := since.Fleet != w.fleet || since.Revision == 0 || since.Revision > w.head || w.chance(w.faults.floor)
	if full {
		w.fulls++
	}
	base := func() *registryv1.SyncResponse {
		return &registryv1.SyncResponse{Fleet: w.fleet, HeadRevision: int64(w.head), Full: full}
	}
	responses := []*registryv1.SyncResponse{base()}
	for key, revision := range w.changed {
		name, _ := script.ParseName(key[len("releases/"):])
		r, live := w.now[name.Script]
		if !live {
			r = script.Release{Name: name, Revision: revision, Deleted: true}
		}
		if (full && !live) || (!full && revision <= since.Revision) {
			continue
		}
		resp := base()
		resp.Objects = append(resp.Objects, wire.FromReleaseObject(r))
		if live && !without && !w.chance(w.faults.hide) {
			resp.Sources = append(resp.Sources, &scriptv1.Source{Digest: wire.FromDigest(r.Active.Digest), Content: w.sources[r.Active.Digest]})
		}
		responses = append(responses, resp)
	}
	return responses
}

// FetchSources implements follow.Registry.
func (w *world) FetchSources(ctx context.Context, digests []script.Digest) iter.Seq2[*scriptv1.Source, error] {
	return func(yield func(*scriptv1.Source, error) bool) {
		w.mu.Lock()
		if w.faults.hang {
			w.mu.Unlock()
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		defer w.mu.Unlock()
		if w.faults.down {
			yield(nil, errDown)
			return
		}
		for _, d := range digests {
			content, ok := w.sources[d]
			if !ok || w.chance(w.faults.hide) {
				continue
			}
			if w.chance(w.faults.cut) {
				content = append([]byte("tampered "), content...)
			}
			if !yield(&scriptv1.Source{Digest: wire.FromDigest(d), Content: content}, nil) {
				return
			}
		}
	}
}

// node is an agent's state in memory. What is in it survives the follower, as a
// disk does. It checks the promises at each change and each report.
type node struct {
	w    *world
	name string

	mu      sync.Mutex
	live    map[string]script.Release
	sources map[script.Digest][]byte
	cursor  follow.Cursor
	fleet   string // of the last commit
	status  *eventv1.Status
	reports []time.Time
	leaving int
	held    int  // bytes of sources at once, at most
	lost    bool // sources of what is live were lost: the cursor goes back before it
}

func newNode(w *world, name string) *node {
	return &node{w: w, name: name, live: map[string]script.Release{}, sources: map[script.Digest][]byte{}}
}

// run follows until the returned function is called.
func (n *node) run(ctx context.Context, seed uint64) (*follow.Follower, func()) {
	ctx, cancel := context.WithCancel(ctx)
	f, err := follow.New(follow.Config{
		Agent: n.name, State: n, Registry: n.w, Feed: n.w, Reporter: n, Log: quiet, Seed: seed,
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.Run(ctx); err != nil {
			n.w.t.Error(err)
		}
	}()
	return f, func() {
		cancel()
		<-done
	}
}

func (n *node) Cursor() follow.Cursor {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cursor
}

func (n *node) Revision(key string) script.Revision {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[key].Revision
}

func (n *node) Live() iter.Seq[string] {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Values(slices.Collect(maps.Keys(n.live)))
}

func (n *node) Incomplete() []script.Release {
	var incomplete []script.Release
	for _, r := range n.live {
		if n.sources[r.Active.Digest] == nil {
			incomplete = append(incomplete, r)
		}
	}
	n.lost = len(incomplete) > 0
	return incomplete
}

func (n *node) HasSource(d script.Digest) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sources[d] != nil
}

func (n *node) fault() error {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.chance(n.w.faults.disk) {
		return errors.New("no space left on device")
	}
	return nil
}

func (n *node) PutSources(sources map[script.Digest][]byte) error {
	if err := n.fault(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = max(n.held, bytesOf(sources))
	for d, content := range sources {
		if script.DigestOf(content) != d {
			n.w.t.Errorf("%s stores %q under another's digest", n.name, content)
		}
		n.sources[d] = content
	}
	return nil
}

func bytesOf(sources map[script.Digest][]byte) int {
	total := 0
	for _, content := range sources {
		total += len(content)
	}
	return total
}

func (n *node) Prepare(_ context.Context, r script.Release, source []byte, _ bool) error {
	if source == nil {
		n.mu.Lock()
		source = n.sources[r.Active.Digest]
		n.mu.Unlock()
	}
	if script.DigestOf(source) != r.Active.Digest {
		n.w.t.Errorf("%s compiles %q for %v", n.name, source, r.Active.Digest)
	}
	if string(source[:3]) == "bad" {
		return script.Errorf(script.Script, "", "bad source: %s", source)
	}
	return nil
}

func (n *node) Commit(put []follow.Item, removed []script.Name) error {
	if err := n.fault(); err != nil {
		return err
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	sameFleet := n.w.fleet == n.fleet
	n.fleet = n.w.fleet
	for _, item := range put {
		key, r := item.Object.GetKey(), item.Release
		if sameFleet && r.Revision < n.live[key].Revision {
			n.w.t.Errorf("%s went back from %d to %d of %s", n.name, n.live[key].Revision, r.Revision, key)
		}
		if d, committed := n.w.commits[key][r.Revision]; !committed || d != r.Active.Digest {
			n.w.t.Errorf("%s runs %s at %d, which was never committed", n.name, key, r.Revision)
		}
		if n.sources[r.Active.Digest] == nil {
			n.w.t.Errorf("%s made %s live without its source", n.name, key)
		}
		n.live[key] = r
	}
	for _, name := range removed {
		delete(n.live, wire.ReleaseKey(name))
	}
	return nil
}

func (n *node) SaveCursor(c follow.Cursor) error {
	if err := n.fault(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.Fleet == n.cursor.Fleet && c.Revision < n.cursor.Revision && !n.lost {
		n.w.t.Errorf("%s: the cursor went from %v to %v", n.name, n.cursor, c)
	}
	n.cursor = c
	return nil
}

// Report implements follow.Reporter, and checks that the status is true: every
// script that did not change after the activated revision is live, or gone, as
// it should be, but for the failures.
func (n *node) Report(_ context.Context, s *eventv1.Status) error {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.GetLeaving() {
		n.leaving++
	}
	if data, err := wire.Seal(s); err != nil || len(data) > 1<<20 {
		n.w.t.Errorf("%s composed a status of %d bytes that cannot be sent: %v", n.name, len(data), err)
	}
	n.status = s
	n.reports = append(n.reports, time.Now())
	if s.GetFleet() != n.w.fleet {
		return nil
	}
	failed := map[string]int64{}
	for _, f := range s.GetFailures() {
		failed[f.GetKey()] = f.GetRevision()
	}
	for key, revision := range n.w.changed {
		if int64(revision) > s.GetActivatedRevision() || failed[key] == int64(revision) {
			continue
		}
		want := n.w.now[key[len("releases/acme/"):]].Revision // 0 when deleted
		if got := n.live[key].Revision; got != want {
			n.w.t.Errorf("%s reports %d, but %s is at %d instead of %d (failed: %v)", n.name, s.GetActivatedRevision(), key, got, want, failed)
		}
	}
	return nil
}

// converged says what is wrong with the node, or "".
func (n *node) converged() string {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.status == nil || n.status.GetFleet() != n.w.fleet || script.Revision(n.status.GetActivatedRevision()) < n.w.last {
		return fmt.Sprintf("its status is %v, the head %d", n.status, n.w.head)
	}
	failed := map[string]bool{}
	for _, f := range n.status.GetFailures() {
		failed[f.GetKey()] = true
	}
	for name, want := range n.w.now {
		key := wire.ReleaseKey(want.Name)
		bad := string(n.w.sources[want.Active.Digest][:3]) == "bad"
		if got := n.live[key].Revision; bad != failed[key] || (!bad && got != want.Revision) {
			return fmt.Sprintf("%s is at %d, wanted %d; bad: %v, reported as failed: %v", name, got, want.Revision, bad, failed[key])
		}
	}
	for key := range n.live {
		if _, there := n.w.now[key[len("releases/acme/"):]]; !there {
			return key + " is still live"
		}
	}
	return ""
}
