package follow_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/follow"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// changed returns an envelope with something changed in it.
func changed(t *testing.T, data []byte, change func(*eventv1.Envelope)) []byte {
	t.Helper()
	var env eventv1.Envelope
	if err := proto.Unmarshal(data, &env); err != nil {
		t.Fatal(err)
	}
	change(&env)
	out, err := proto.Marshal(&env)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatIsNotBelievedChangesNothing(t *testing.T) {
	evil := func(w *world) *eventv1.Event {
		return &eventv1.Event{
			Fleet: w.fleet, Group: "all", Revision: int64(w.head + 1), PreviousRevision: int64(w.head),
			Entries: [][]byte{w.seal(wire.FromReleaseEntry(w.fleet, script.Release{Name: nameFor("a"), Revision: w.head + 1, Deleted: true}))},
		}
	}
	beacon := func(w *world) *eventv1.Beacon {
		b := w.beaconOf("all")
		b.Sequence, b.HeadRevision, b.GroupRevision = b.GetSequence()+1, 1<<40, 1<<40
		return b
	}
	for name, tt := range map[string]struct {
		reason string
		send   func(w *world, h follow.Handler)
	}{
		"unsigned event": {"unsigned", func(w *world, h follow.Handler) {
			h.Event(sealWith(w.t, seal.Unsigned(), evil(w)))
		}},
		"a stranger's event": {"unknown_key", func(w *world, h follow.Handler) {
			h.Event(sealWith(w.t, seal.NewSealer(newKey(66)), evil(w)))
		}},
		"altered event": {"forged", func(w *world, h follow.Handler) {
			h.Event(changed(w.t, w.seal(evil(w)), func(e *eventv1.Envelope) { e.Payload[len(e.Payload)/2] ^= 1 }))
		}},
		"event of protocol 1": {"old_protocol", func(w *world, h follow.Handler) {
			h.Event(changed(w.t, w.seal(evil(w)), func(e *eventv1.Envelope) { e.Protocol = 1 }))
		}},
		"event of protocol 3": {"new_protocol", func(w *world, h follow.Handler) {
			h.Event(changed(w.t, w.seal(evil(w)), func(e *eventv1.Envelope) { e.Protocol = 3 }))
		}},
		"rubbish":                    {"malformed", func(_ *world, h follow.Handler) { h.Event([]byte("\xffrubbish")) }},
		"nothing":                    {"malformed", func(_ *world, h follow.Handler) { h.Beacon(nil) }},
		"an event among beacons":     {"malformed", func(w *world, h follow.Handler) { h.Beacon(w.seal(evil(w))) }},
		"an event that goes nowhere": {"malformed", func(w *world, h follow.Handler) { h.Event(w.seal(&eventv1.Event{Fleet: w.fleet, Group: "all"})) }},
		"a beacon that contradicts":  {"malformed", func(w *world, h follow.Handler) { b := beacon(w); b.HeadRevision = 1; h.Beacon(w.seal(b)) }},
		"a checksum of another size": {"malformed", func(w *world, h follow.Handler) { b := beacon(w); b.Checksums[0].Sum = []byte{1}; h.Beacon(w.seal(b)) }},
		"an entry that is no entry":  {"malformed", func(w *world, h follow.Handler) { e := evil(w); e.Entries = [][]byte{{1}}; h.Event(w.seal(e)) }},
		"event of another fleet":     {"other_fleet", func(w *world, h follow.Handler) { e := evil(w); e.Fleet, e.Entries = "other", nil; h.Event(w.seal(e)) }},
		"beacon of another fleet":    {"other_fleet", func(w *world, h follow.Handler) { b := beacon(w); b.Fleet = "other"; h.Beacon(w.seal(b)) }},
		"roll call of another fleet": {"other_fleet", func(w *world, h follow.Handler) { h.RollCall(w.seal(&eventv1.RollCall{Fleet: "other"})) }},
		"roll call of a stranger": {"unsigned", func(w *world, h follow.Handler) {
			h.RollCall(sealWith(w.t, seal.Unsigned(), &eventv1.RollCall{Fleet: w.fleet}))
		}},
		"event of another group":      {"other_group", func(w *world, h follow.Handler) { e := evil(w); e.Group = "g-1"; h.Event(w.seal(e)) }},
		"beacon of another group":     {"other_group", func(w *world, h follow.Handler) { b := beacon(w); b.Group = "g-1"; h.Beacon(w.seal(b)) }},
		"a beacon of an earlier term": {"replayed", func(w *world, h follow.Handler) { b := beacon(w); b.Term--; b.Sequence += 100; h.Beacon(w.seal(b)) }},
		"a beacon of before":          {"replayed", func(w *world, h follow.Handler) { b := beacon(w); b.Sequence--; h.Beacon(w.seal(b)) }},
		"an entry of another fleet": {"other_fleet", func(w *world, h follow.Handler) {
			e := evil(w)
			e.Entries = append(e.Entries, w.seal(wire.FromReleaseEntry("other", script.Release{Name: nameFor("b"), Revision: w.head + 1, Deleted: true})))
			h.Event(w.seal(e))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			simulateSigned(t, func(w *world, n *node, f *follow.Follower) {
				w.commit(map[string]string{"a": "one"})
				pass(1500 * time.Millisecond)
				n.expect("before")
				syncs, _ := w.counts()
				before, reports := f.Synced(), len(n.reports)
				w.mu.Lock()
				for h := range w.handlers {
					tt.send(w, h)
				}
				w.mu.Unlock()
				pass(250 * time.Millisecond)
				if got := n.refused(tt.reason); got != 1 {
					t.Errorf("%d messages are counted as %s", got, tt.reason)
				}
				n.expect("after")
				after, _ := w.counts()
				if revision, _ := f.Position(time.Now()); revision != w.head || after != syncs || f.Synced() != before || len(n.reports) != reports {
					t.Errorf("at %d, %d syncs, %d reports", revision, after-syncs, len(n.reports)-reports)
				}
				w.commit(map[string]string{"a": "two"})
				pass(300 * time.Millisecond)
				n.expect("later")
			})
		})
	}
}

func TestARefusalIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t, 1)
		n := newNode(w, "n")
		cfg := n.config(1)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		stop := follows(t, cfg)
		pass(time.Second)
		for range 600 { // five minutes
			w.mu.Lock()
			for h := range w.handlers {
				h.Event(w.forgery("all"))
				h.Event(nil)
			}
			w.mu.Unlock()
			pass(500 * time.Millisecond)
		}
		for _, reason := range []string{"unknown_key", "malformed"} {
			if got := strings.Count(log.String(), "reason="+reason); got != 5 {
				t.Errorf("%s is logged %d times in five minutes:\n%s", reason, got, log.String())
			}
			if got := n.refused(reason); got != 600 {
				t.Errorf("%d are counted as %s", got, reason)
			}
		}
		stop()
	})
}

// follows runs a follower with the configuration.
func follows(t *testing.T, cfg follow.Config) (stop func()) {
	t.Helper()
	f, err := follow.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// meddler is a registry whose answers somebody changes.
type meddler struct {
	*world
	meddle func(pages []*eventv1.Page) []*eventv1.Page
	by     *seal.Sealer
}

func (m *meddler) Pull(ctx context.Context, req *registryv1.PullRequest) iter.Seq2[*registryv1.PullResponse, error] {
	return func(yield func(*registryv1.PullResponse, error) bool) {
		var pages []*eventv1.Page
		var rest []*registryv1.PullResponse
		for resp, err := range m.world.Pull(ctx, req) {
			if err != nil {
				yield(nil, err)
				return
			}
			p := &eventv1.Page{}
			if _, err := m.trusted.Open(resp.GetPage(), p); err != nil {
				m.t.Error(err)
			}
			pages = append(pages, p)
			rest = append(rest, resp)
		}
		if m.meddle != nil {
			pages = m.meddle(pages)
		}
		for i, p := range pages {
			resp := &registryv1.PullResponse{Page: sealWith(m.t, m.by, p)}
			if i < len(rest) {
				resp.Sources = rest[i].GetSources()
			}
			if !yield(resp, nil) {
				return
			}
		}
	}
}

func TestAnAnswerIsBelievedAsAWholeOrNotAtAll(t *testing.T) {
	each := func(change func(*eventv1.Page)) func([]*eventv1.Page) []*eventv1.Page {
		return func(pages []*eventv1.Page) []*eventv1.Page {
			for _, p := range pages {
				change(p)
			}
			return pages
		}
	}
	second := func(change func(*eventv1.Page)) func([]*eventv1.Page) []*eventv1.Page {
		return func(pages []*eventv1.Page) []*eventv1.Page {
			change(pages[1])
			return pages
		}
	}
	ours := seal.NewSealer(newKey(1))
	var first []*eventv1.Page
	for name, tt := range map[string]struct {
		reason string
		by     *seal.Sealer
		meddle func([]*eventv1.Page) []*eventv1.Page
	}{
		"unsigned":              {"unsigned", seal.Unsigned(), nil},
		"by a stranger":         {"unknown_key", seal.NewSealer(newKey(66)), nil},
		"of another request":    {"replayed", ours, each(func(p *eventv1.Page) { p.Nonce = []byte("another nonce!!!") })},
		"of no request":         {"replayed", ours, each(func(p *eventv1.Page) { p.Nonce = nil })},
		"since another time":    {"replayed", ours, each(func(p *eventv1.Page) { p.Since++ })},
		"since another fleet":   {"replayed", ours, each(func(p *eventv1.Page) { p.SinceFleet += "x" })},
		"of another group":      {"other_group", ours, each(func(p *eventv1.Page) { p.Group = "g-0123" })},
		"of no fleet":           {"malformed", ours, each(func(p *eventv1.Page) { p.Fleet = ""; p.Entries = nil })},
		"two fleets":            {"other_fleet", ours, second(func(p *eventv1.Page) { p.Fleet = "other"; p.Entries = nil })},
		"entry of another":      {"other_fleet", ours, second(func(p *eventv1.Page) { p.Entries = [][]byte{sealWith(t, ours, &eventv1.Entry{Fleet: "other"})} })},
		"two heads":             {"malformed", ours, second(func(p *eventv1.Page) { p.HeadRevision++ })},
		"full and not":          {"malformed", ours, second(func(p *eventv1.Page) { p.Full = !p.GetFull() })},
		"a page is missing":     {"malformed", ours, func(p []*eventv1.Page) []*eventv1.Page { return slices.Delete(p, 1, 2) }},
		"a page comes twice":    {"malformed", ours, func(p []*eventv1.Page) []*eventv1.Page { return slices.Insert(p, 1, p[1]) }},
		"pages in another turn": {"malformed", ours, func(p []*eventv1.Page) []*eventv1.Page { p[1], p[2] = p[2], p[1]; return p }},
		"the last is missing":   {"malformed", ours, func(p []*eventv1.Page) []*eventv1.Page { return p[:len(p)-1] }},
		"more than the last":    {"malformed", ours, func(p []*eventv1.Page) []*eventv1.Page { return append(p, p[len(p)-1]) }},
		"none at all":           {"malformed", ours, func([]*eventv1.Page) []*eventv1.Page { return nil }},
		"the answer of before": {"replayed", ours, func(p []*eventv1.Page) []*eventv1.Page {
			if first == nil {
				first = p
			}
			return first
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.commit(map[string]string{"a": "one", "b": "one", "c": "one"})
				n := newNode(w, "n")
				if name == "the answer of before" { // which was right once
					stop := follows(t, n.config(1))
					pass(time.Second)
					stop()
					w.commit(map[string]string{"a": "two"})
				}
				at := n.cursor
				live := len(n.live)
				cfg := n.config(2)
				m := &meddler{world: w, by: tt.by, meddle: tt.meddle}
				if name == "the answer of before" {
					m.meddle(func() (p []*eventv1.Page) {
						for _, resp := range w.answer(&registryv1.PullRequest{Nonce: []byte("of a request before")}) {
							page := &eventv1.Page{}
							if _, err := w.trusted.Open(resp.GetPage(), page); err != nil {
								t.Error(err)
							}
							p = append(p, page)
						}
						return p
					}())
				}
				cfg.Registry = m
				stop := follows(t, cfg)
				pass(3 * time.Second)
				if n.cursor != at || len(n.live) != live {
					t.Errorf("at %v with %d live", n.cursor, len(n.live))
				}
				if got := n.refused(tt.reason); got < 2 || got != n.metric("scriptorium_agent_syncs_failed_total", "") {
					t.Errorf("%d answers are counted as %s, of %d that failed", got, tt.reason, n.metric("scriptorium_agent_syncs_failed_total", ""))
				}
				w.mu.Lock()
				m.meddle, m.by = nil, ours
				w.mu.Unlock()
				pass(8 * time.Second)
				n.expect("when it is left alone")
				stop()
			})
		})
	}
}

// TestWhatCannotBeReadIsNotKept in place of what can, when everything is signed anew.
func TestWhatCannotBeReadIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "releases/acme/a"
		w := newWorld(t, 1)
		n := newNode(w, "n")
		cfg := n.config(1)
		m := &meddler{world: w, by: seal.NewSealer(newKey(1))}
		cfg.Registry = m
		stop := follows(t, cfg)
		w.commit(map[string]string{"a": "one", "b": "one"})
		pass(2 * time.Second)
		n.expect("before")
		n.trusted.Replace(publicOf(newKey(1)), publicOf(newKey(2)))
		at := int64(n.Revision(key))
		w.mu.Lock()
		w.sealer = seal.NewSealer(newKey(2))
		m.by = w.sealer
		m.meddle = func(pages []*eventv1.Page) []*eventv1.Page {
			for _, p := range pages {
				for i, sealed := range p.GetEntries() {
					e := &eventv1.Entry{}
					if _, err := w.trusted.Open(sealed, e); err != nil {
						t.Error(err)
					}
					if e.GetObject().GetKey() == key {
						e.Object = &eventv1.Object{Key: key, Revision: at, Kind: &eventv1.Object_Release{Release: &scriptv1.Release{}}}
						p.Entries[i] = sealWith(t, m.by, e)
					}
				}
			}
			return pages
		}
		w.mu.Unlock()
		pass(time.Minute)
		old, next := seal.KeyID(publicOf(newKey(1))), seal.KeyID(publicOf(newKey(2)))
		if a, b := n.kept[key].SealedBy, n.kept["releases/acme/b"].SealedBy; a != old || b != next {
			t.Errorf("a is kept as %s has signed it, b as %s has; want %s, %s", a, b, old, next)
		}
		stop()
	})
}

func TestKeysAreReplacedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		n := newNode(w, "n")
		n.trusted = seal.NewKeyring(publicOf(newKey(2)))
		stop := follows(t, n.config(1))
		w.commit(map[string]string{"a": "one"})
		pass(20 * time.Second)
		if len(n.live) != 0 || n.refused("unknown_key") == 0 {
			t.Errorf("%d are live that nobody vouches for", len(n.live))
		}
		n.trusted.Replace(publicOf(newKey(2)), publicOf(newKey(1)))
		pass(6 * time.Second)
		n.expect("with the right key")
		n.trusted.Replace(publicOf(newKey(2)))
		w.commit(map[string]string{"a": "two"})
		pass(20 * time.Second)
		if n.converged() == "" {
			t.Error("it believes a key that was taken away")
		}
		stop()
	})
}

func TestNobodyIsTrustedByDefault(t *testing.T) {
	cfg := newNode(newWorld(t, 1), "n").config(1)
	cfg.Trusted = nil
	if _, err := follow.New(cfg); err == nil {
		t.Error("a follower without a keyring")
	}
}

// However long the beacons of the past are repeated, what they hide is found.
func TestBeaconsOfThePastDoNotHoldAnAgentBack(t *testing.T) {
	for _, beacons := range []string{"repeated", "made of old ones"} {
		t.Run(beacons, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				n := newNode(w, "n")
				stop := follows(t, n.config(1))
				w.commit(map[string]string{"a": "one"})
				w.beacon()
				pass(2 * time.Second)
				n.expect("before")
				// A thief of a NATS credential keeps everything away but what it repeats,
				// or, worse, has recorded a term's beacons that nobody has heard.
				w.set(faults{silent: true})
				var kept [][]byte
				for range 200 {
					w.sequence++
					kept = append(kept, w.seal(w.beaconOf("all")))
				}
				w.commit(map[string]string{"a": "two"})
				began, limit := time.Now(), 10*time.Second
				if beacons == "made of old ones" {
					limit = 90 * time.Second
				}
				for i := 0; n.converged() != ""; i++ {
					if time.Since(began) > limit {
						t.Fatalf("held back for %v", time.Since(began))
					}
					w.mu.Lock()
					for h := range w.handlers {
						if beacons == "repeated" {
							h.Beacon(bytes.Clone(w.sent["all"][len(w.sent["all"])-1].data))
						} else {
							h.Beacon(kept[i])
						}
					}
					w.mu.Unlock()
					pass(time.Second)
				}
				stop()
			})
		})
	}
}

func TestOldRegistry(t *testing.T) {
	for name, tt := range map[string]struct {
		trusted *seal.Keyring
		works   bool
	}{
		"trusting everything": {seal.TrustEverything(), true},
		"asking for keys":     {seal.NewKeyring(publicOf(newKey(1))), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := newWorld(t, 1)
				w.commit(map[string]string{"a": "one", "shop/b": "one"})
				n := newNode(w, "n")
				n.trusted = tt.trusted
				n.tenants = selector(t, "acme")
				cfg := n.config(1)
				stop := follows(t, cfg)
				pass(2 * time.Second)
				n.expect("with a registry of today")
				stop()
				w.mu.Lock()
				w.old = true
				w.mu.Unlock()
				cfg = n.config(2)
				cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
				stop = follows(t, cfg)
				before := w.head
				w.commit(map[string]string{"a": "two", "shop/b": "two"})
				w.commit(map[string]string{"c": "three"})
				pass(10 * time.Second)
				if tt.works {
					n.expect("with a registry of before")
				} else if n.Revision("releases/acme/a") != before || strings.Count(log.String(), "upgrade registries first") != 1 { // and no line for each attempt
					t.Errorf("a is at %d; the log says\n%s", n.Revision("releases/acme/a"), log.String())
				}
				w.mu.Lock()
				w.old = false
				w.mu.Unlock()
				pass(10 * time.Second)
				n.expect("with one of today again")
				stop()
			})
		})
	}
}

func selector(t *testing.T, globs ...string) script.Selector {
	t.Helper()
	s, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
