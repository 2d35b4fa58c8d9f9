package follow_test

import (
	"context"
	"crypto/ed25519"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// world is a registry and its feed, with faults. Its events reach handlers after
// a delay, or never, or twice, or in the hands of somebody who changes them.
type world struct {
	adopt string // the fleet that nodes change to
	t     *testing.T

	mu        sync.Mutex
	random    *rand.Rand
	faults    faults
	sealer    *seal.Sealer
	trusted   *seal.Keyring // by nodes that are made
	fleet     string
	head      script.Revision
	term      int64
	sequence  uint64
	groups    map[string]*group
	now       map[string]script.Object                // by key
	changed   map[string]script.Revision              // by key, tombstones included
	commits   map[string]map[script.Revision]wire.Sum // everything that ever was
	sources   map[script.Digest][]byte
	hidden    map[script.Digest]bool    // sources that it sends to nobody
	handlers  map[follow.Handler]string // and its group
	sent      map[string][]sent         // the last messages of each group
	inline    bool                      // sources are small: all travel with events
	large     bool                      // none does
	wrong     bool                      // checksums are: a bug of the registry
	odd       bool                      // those of beacons are
	old       bool                      // it speaks the wire protocol 1
	narrow    bool                      // it knows releases alone
	lost      []string                  // the keys of objects whose records it cannot read
	knows     bool                      // what those were before
	made      int64                     // removals, so far
	uncounted bool                      // it is of an edition that does not say so
	accepted  int64                     // objects whose loss is
	at        script.Revision           // of that
	overtake  func()                    // called before each answer is sent; may be nil
	trace     string                    // the traceparent of transactions
	agents    int32                     // that it says are connected
	syncs     int
	fulls     int

	sessionKey string // the key id of the sessions that answers open
}

// group is a chain of the feed.
type group struct {
	tenants script.Selector
	last    script.Revision // the revision of its last event
}

// sent is a message as it was sent.
type sent struct {
	beacon bool
	data   []byte
}

// faults are probabilities.
type faults struct {
	lose, double, foreign, garble float64
	forge, alter, replay          float64       // somebody on the way
	delay                         time.Duration // at most, of a message
	silent                        bool          // nothing comes over the feed
	down                          bool          // the registry answers nothing
	cut, slow, hide               float64       // a sync breaks off, takes long; a source is not sent
	disk                          float64       // a commit fails
	cursors                       bool          // the disk has room for cursors
	floor                         float64       // a sync is answered with a full snapshot
	hang                          bool          // the registry takes calls and answers none
	late                          time.Duration // at most, until the registry looks what to answer
	sessionless                   bool          // the registry gives no sessions
	forgetful                     bool          // beacons name another key of sessions than answers use
}

// newKey returns the key of the number.
func newKey(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{number}, ed25519.SeedSize))
}

func publicOf(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return &world{
		t: t, random: rand.New(rand.NewPCG(seed, 7)), fleet: "fleet-1", head: 1, term: 1,
		sessionKey: "first",
		sealer:     seal.NewSealer(newKey(1)), trusted: seal.NewKeyring(publicOf(newKey(1))),
		groups: map[string]*group{script.GroupAll: {last: 1}},
		now:    map[string]script.Object{}, changed: map[string]script.Revision{},
		commits: map[string]map[script.Revision]wire.Sum{},
		sources: map[script.Digest][]byte{}, hidden: map[script.Digest]bool{}, handlers: map[follow.Handler]string{}, sent: map[string][]sent{},
	}
}

// unsigned makes it one of those who ask for no signatures.
func (w *world) unsigned() *world {
	w.sealer, w.trusted = seal.Unsigned(), seal.TrustEverything()
	return w
}

func (w *world) chance(p float64) bool { return p > 0 && w.random.Float64() < p }

func (w *world) seal(m proto.Message) []byte { return sealWith(w.t, w.sealer, m) }

func sealWith(t *testing.T, s *seal.Sealer, m proto.Message) []byte {
	t.Helper()
	data, err := s.Seal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// nameFor returns the script "tenant/name", the tenant being acme if none is named.
func nameFor(name string) script.Name {
	if tenant, rest, ok := strings.Cut(name, "/"); ok {
		return script.Name{Tenant: tenant, Script: rest}
	}
	return script.Name{Tenant: "acme", Script: name}
}

// keyFor returns the key of a script, of "values/tenant/key" or of "tenants/name".
func keyFor(name string) string {
	if strings.HasPrefix(name, "values/") || strings.HasPrefix(name, "tenants/") {
		return name
	}
	return wire.ReleaseKey(nameFor(name))
}

// commit changes objects in one transaction: scripts to sources, values to contents,
// tenants to settings that follow from the text. An empty one deletes.
func (w *world) commit(changes map[string]string) script.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head += script.Revision(1 + w.random.IntN(3)) // others write to the same store
	objects := make([]script.Object, 0, len(changes))
	inline := map[script.Digest]*scriptv1.Source{}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		o := w.change(keyFor(name), changes[name])
		objects = append(objects, o)
		for c := range o.Contents {
			if !w.large && (w.inline || w.random.IntN(2) == 0) { // else too large to travel with the event
				inline[c.Digest] = &scriptv1.Source{Digest: wire.FromDigest(c.Digest), Content: w.sources[c.Digest]}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[name]
		e := &eventv1.Event{Fleet: w.fleet, Group: name, Revision: int64(w.head), PreviousRevision: int64(g.last), Removals: w.made, Traceparent: w.trace}
		for _, o := range objects {
			if !g.tenants.Matches(o.TenantName()) {
				continue
			}
			e.Entries = append(e.Entries, w.seal(wire.FromObjectEntry(w.fleet, o)))
			for c := range o.Contents {
				if inline[c.Digest] != nil {
					e.Sources = append(e.Sources, inline[c.Digest])
				}
			}
		}
		if len(e.Entries) > 0 {
			g.last = w.head
			w.send(name, sent{data: w.seal(e)})
		}
	}
	return w.head
}

// change makes an object of the revision that is in the making.
func (w *world) change(key, text string) script.Object {
	o := tombstone(key, w.head)
	if text == "" {
		delete(w.now, key)
		w.made++
	} else {
		o = w.make(o, w.now[key], []byte(text))
		w.now[key] = o
	}
	w.changed[key] = w.head
	if w.commits[key] == nil {
		w.commits[key] = map[script.Revision]wire.Sum{}
	}
	w.commits[key][w.head] = wire.FingerprintObject(o)
	return o
}

// make makes a live object of a tombstone, from the object before.
func (w *world) make(o, before script.Object, text []byte) script.Object {
	d := script.DigestOf(text)
	switch {
	case o.Value != nil:
		w.sources[d] = text
		return script.Object{Value: &script.Value{Key: o.Value.Key, Revision: w.head, Digest: d, Size: len(text)}}
	case o.Tenant != nil:
		settings := script.TenantSettings{LogBytes: len(text), CPU: int(text[0])}
		return script.Object{Tenant: &script.Tenant{Name: o.Tenant.Name, Revision: w.head, Settings: settings}}
	}
	w.sources[d] = text
	latest := uint64(1)
	if before.Release != nil {
		latest = before.Release.Latest + 1
	}
	active := script.Version{Number: latest, Digest: d, Engine: "fake", Size: len(text)}
	return script.Object{Release: &script.Release{
		Name: o.Release.Name, Revision: w.head, Enabled: true, Latest: latest, Active: active, Retained: []script.Version{active},
	}}
}

// tombstone returns the object with the key as it is once it was deleted.
func tombstone(key string, at script.Revision) script.Object {
	kind, name, _ := strings.Cut(key, "/")
	tenant, rest, _ := strings.Cut(name, "/")
	switch script.ObjectKind(kind) {
	case script.Values:
		return script.Object{Value: &script.Value{Key: script.ValueKey{Tenant: tenant, Key: rest}, Revision: at, Deleted: true}}
	case script.Tenants:
		return script.Object{Tenant: &script.Tenant{Name: tenant, Revision: at, Deleted: true}}
	}
	return script.Object{Release: &script.Release{Name: script.Name{Tenant: tenant, Script: rest}, Revision: at, Deleted: true}}
}

// rebuild empties the registry: another fleet, whose revisions start low.
func (w *world) rebuild() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fleet, w.head, w.term, w.sequence = "fleet-2", 3, 1, 0
	for _, g := range w.groups {
		g.last = 3
	}
	clear(w.now)
	clear(w.changed)
	clear(w.commits)
	clear(w.sent)
}

func (w *world) beacon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.groups)) {
		w.sequence++
		w.send(name, sent{beacon: true, data: w.seal(w.beaconOf(name))})
	}
}

// beaconOf composes the beacon of a group, as of now. w.mu is held.
func (w *world) beaconOf(name string) *eventv1.Beacon {
	g := w.groups[name]
	b := &eventv1.Beacon{
		Fleet: w.fleet, Group: name, HeadRevision: int64(w.head), GroupRevision: int64(g.last),
		Term: w.term, Sequence: w.sequence, Checksums: w.checksums(g.tenants), Unreadable: w.lost, AcceptedLossRevision: int64(w.at),
		SessionKeys: []string{"next", w.sessionKey}, Agents: w.agents,
	}
	if w.faults.forgetful {
		b.SessionKeys = []string{"other"}
	}
	if w.odd {
		b.Checksums[0].Sum[5]++
	}
	return b
}

func (w *world) checksums(tenants script.Selector) []*eventv1.Checksum {
	sums := map[script.ObjectKind]wire.Sum{}
	for key, o := range w.now {
		if tenants.Matches(o.TenantName()) && !slices.Contains(w.lost, key) {
			sum := sums[o.Kind()]
			sum.Add(wire.FingerprintObject(o))
			sums[o.Kind()] = sum
		}
	}
	if w.wrong {
		sum := sums[script.Releases]
		sum[0]++
		sums[script.Releases] = sum
	}
	checksums := []*eventv1.Checksum{{Kind: wire.KindRelease, Sum: sums[script.Releases].Bytes()}, {Kind: "unknown"}}
	if w.narrow {
		return checksums
	}
	for _, kind := range []script.ObjectKind{script.Values, script.Tenants} {
		checksums = append(checksums, &eventv1.Checksum{Kind: string(kind), Sum: sums[kind].Bytes()})
	}
	return checksums
}

// send delivers a message to every handler of the group, each with its own fate.
// w.mu is held.
func (w *world) send(name string, m sent) {
	for h, of := range w.handlers {
		if of == name {
			w.meddle(h, name, m)
			w.deliver(h, m)
		}
	}
	w.sent[name] = append(w.sent[name], m)
	w.sent[name] = w.sent[name][max(0, len(w.sent[name])-50):]
}

// meddle adds what strangers send.
func (w *world) meddle(h follow.Handler, name string, m sent) {
	if w.chance(w.faults.foreign) {
		h.Event(w.seal(&eventv1.Event{Fleet: "stray", Group: name, Revision: int64(w.head + 1000)}))
		h.Beacon(w.seal(&eventv1.Beacon{Fleet: "stray", Group: name, HeadRevision: 1 << 40, GroupRevision: 1 << 40, Term: 1 << 40}))
	}
	if w.chance(w.faults.garble) {
		h.Event([]byte("\xff\xff rubbish"))
	}
	if w.chance(w.faults.alter) {
		altered := slices.Clone(m.data)
		altered[w.random.IntN(len(altered))] ^= 1 << w.random.IntN(8)
		hand(h, sent{beacon: m.beacon, data: altered})
	}
	if w.chance(w.faults.replay) && len(w.sent[name]) > 0 {
		hand(h, w.sent[name][w.random.IntN(len(w.sent[name]))])
	}
	if w.chance(w.faults.forge) {
		h.Event(w.forgery(name))
	}
}

// forgery is an event that would delete a script, of one who does not have the key.
func (w *world) forgery(name string) []byte {
	stranger := seal.NewSealer(newKey(66))
	evil := script.Release{Name: nameFor("s1"), Revision: w.head + 1, Deleted: true}
	return sealWith(w.t, stranger, &eventv1.Event{
		Fleet: w.fleet, Group: name, Revision: int64(w.head + 1), PreviousRevision: int64(w.groups[name].last),
		Entries: [][]byte{sealWith(w.t, stranger, wire.FromReleaseEntry(w.fleet, evil))},
	})
}

// deliver delivers a message, if it gets through.
func (w *world) deliver(h follow.Handler, m sent) {
	if w.faults.silent || w.old || w.chance(w.faults.lose) {
		return
	}
	copies := 1
	if w.chance(w.faults.double) {
		copies = 2
	}
	for range copies {
		if w.faults.delay == 0 {
			hand(h, m)
			continue
		}
		time.AfterFunc(time.Duration(w.random.Int64N(int64(w.faults.delay))), func() { hand(h, m) })
	}
}

// hand hands a copy of its own to the handler.
func hand(h follow.Handler, m sent) {
	if m.beacon {
		h.Beacon(slices.Clone(m.data))
		return
	}
	h.Event(slices.Clone(m.data))
}

// line is the feed of one node.
type line struct {
	w       *world
	tenants script.Selector
}

// Subscribe implements follow.Feed.
func (l line) Subscribe(ctx context.Context, h follow.Handler) error {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.join(l.tenants)
	w.handlers[h] = l.tenants.Group()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.handlers, h)
	})
	h.Connected(true)
	return nil
}

// tell has all handlers get the message at once.
func (w *world) tell(as func(follow.Handler, []byte), sealed []byte) {
	w.mu.Lock()
	for h := range w.handlers {
		as(h, sealed)
	}
	w.mu.Unlock()
	synctest.Wait()
}

// join makes a group, whose chain begins at the head. w.mu is held.
func (w *world) join(tenants script.Selector) {
	if w.groups[tenants.Group()] == nil {
		w.groups[tenants.Group()] = &group{tenants: tenants, last: w.head}
	}
}
