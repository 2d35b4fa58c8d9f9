package sim

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// stranger is a key that nobody trusts.
func stranger() *seal.Sealer { return seal.NewSealer(keys()[2]) }

// forgery is what somebody does who has the bus's password, and no key.
type forgery int

const (
	forgeReplay forgery = iota // says again what was said
	forgeAlter                 // changes a byte
	forgeSign                  // signs by a key of its own
	forgeUnsign                // does not sign
	forgeFleet                 // what another fleet's registry said, which has the same key
	forgeGroup                 // what was said to another group
	forgeNumber                // claims another protocol
	forgeSwap                  // puts a sound signature under something else
	forgeNoise                 // sends what is no message
	forgeries
)

func (f forgery) String() string {
	return [...]string{
		"replayed", "altered", "by a stranger", "unsigned", "of another fleet",
		"of another group", "of another protocol", "with another's signature", "noise",
	}[f]
}

// forge sends a false message to an agent.
func (w *world) forge(st step, r *rand.Rand) {
	if r.IntN(3) == 0 {
		w.forgeStatus(st, r)
		return
	}
	a, how := w.agents[st.who%len(w.agents)], forgery(st.mode%int(forgeries))
	tape := w.bus.recorded()
	if len(tape) == 0 {
		return
	}
	at := r.IntN(len(tape))
	m := tape[at]
	forged, ok := w.forged(how, r, m.data, tape[r.IntN(len(tape))].data)
	if !ok {
		return
	}
	group := a.tenants.Group()
	subject := subjects.Event(group)
	if strings.HasSuffix(m.subject, ".beacon") {
		subject = subjects.Beacon(group)
	}
	if how != forgeGroup && m.subject != subject {
		return // it would be of another group too
	}
	w.log("#%d a message to %s is forged: %s, %s", st.number, a.name, subject, how)
	a.peer.deliver(message{subject: subject, data: forged})
}

// forged makes a false message of a true one.
func (w *world) forged(how forgery, r *rand.Rand, data, other []byte) ([]byte, bool) {
	var env, donor eventv1.Envelope
	if proto.Unmarshal(data, &env) != nil || proto.Unmarshal(other, &donor) != nil {
		return nil, false
	}
	switch how {
	case forgeReplay, forgeGroup:
		return data, true
	case forgeAlter:
		payload := bytes.Clone(env.GetPayload())
		payload[r.IntN(len(payload))] ^= 1 << r.IntN(8)
		env.Payload = payload
	case forgeSign:
		return w.fabricated(&env, stranger(), "")
	case forgeUnsign:
		return w.fabricated(&env, seal.Unsigned(), "")
	case forgeFleet:
		return w.fabricated(&env, w.sealer(), "another fleet")
	case forgeNumber:
		env.Protocol = uint32(1 + 2*r.IntN(2))
	case forgeSwap:
		env.Signatures = donor.GetSignatures()
		if bytes.Equal(data, other) {
			return nil, false
		}
	default:
		return noise(r), true
	}
	forged, err := proto.Marshal(&env)
	return forged, err == nil
}

func noise(r *rand.Rand) []byte {
	data := make([]byte, r.IntN(200))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// fabricated is a message of the envelope's type that says what was never so: from far
// in the future, and with a release of its own.
func (w *world) fabricated(env *eventv1.Envelope, sealer *seal.Sealer, fleet string) ([]byte, bool) {
	const future = 1 << 40
	var m proto.Message
	switch env.GetPayloadType() {
	case "scriptorium.event.v1.Event":
		var e eventv1.Event
		if proto.Unmarshal(env.GetPayload(), &e) != nil {
			return nil, false
		}
		if fleet != "" {
			e.Fleet = fleet
		}
		e.Revision, e.PreviousRevision = future, 0
		r := script.Release{
			Name:     script.Name{Tenant: "acme", Script: "route"},
			Revision: future, Latest: 99, Enabled: true,
			Active: script.Version{Number: 99, Digest: script.DigestOf([]byte("return evil")), Engine: "sim"},
		}
		sealed, err := sealer.Seal(wire.FromReleaseEntry(e.GetFleet(), r))
		if err != nil {
			return nil, false
		}
		e.Entries = [][]byte{sealed}
		m = &e
	case "scriptorium.event.v1.Beacon":
		var b eventv1.Beacon
		if proto.Unmarshal(env.GetPayload(), &b) != nil {
			return nil, false
		}
		if fleet != "" {
			b.Fleet = fleet
		}
		b.HeadRevision, b.GroupRevision, b.Term, b.Sequence = future, future, future, future
		m = &b
	default:
		return nil, false
	}
	data, err := sealer.Seal(m)
	return data, err == nil
}

// tampered is what becomes of a registry's answer on the way.
func (c *channel) tampered(r *rand.Rand, data []byte) []byte {
	old := c.overheard(r)
	var m registryv1.PullResponse
	if proto.Unmarshal(data, &m) != nil || m.GetPage() == nil {
		return old
	}
	switch r.IntN(5) {
	case 0:
		return old // of another answer
	case 1:
		page := bytes.Clone(m.GetPage())
		page[r.IntN(len(page))] ^= 1 << r.IntN(8)
		m.Page = page
	case 2:
		var env eventv1.Envelope
		var page eventv1.Page
		if proto.Unmarshal(m.GetPage(), &env) != nil || proto.Unmarshal(env.GetPayload(), &page) != nil {
			return old
		}
		page.Full, page.Entries = true, nil // everything is gone
		m.Page, _ = stranger().Seal(&page)  // never fails
	case 3:
		for _, src := range m.GetSources() {
			src.Content = append([]byte("evil "), src.GetContent()...)
		}
	default:
		return noise(r)
	}
	changed, err := proto.Marshal(&m)
	if err != nil {
		return old
	}
	return changed
}

// drift changes what an agent runs behind its follower's back.
func (a *agent) drift(r *rand.Rand, number int) {
	synctest.Wait()
	p := a.process
	if p == nil || !p.follower.Synced() {
		return
	}
	all := p.table.Sorted()
	a.mu.Lock()
	defer a.mu.Unlock()
	if (len(all) == 0 || r.IntN(3) == 0) && a.driftObject(p, r, number) || len(all) == 0 {
		return
	}
	live := all[r.IntN(len(all))]
	if a.drifted[live.Name] {
		return
	}
	a.drifted[live.Name] = true
	kind := r.IntN(4)
	a.w.log("#%d %s drifts: %s, way %d", number, a.name, live.Name, kind)
	switch kind {
	case 0: // a bit flips
		// In a release of its own, for who reads the live one now is not to be raced with.
		if now, ok := a.w.truth.asOf(live.Name, live.Revision); ok {
			flipped := cache.NewRelease(now.release)
			flipped.Enabled = !flipped.Enabled
			p.table.Update([]*cache.Release{flipped}, nil)
		}
	case 1: // another release is in its place, or more than there should be
		name := live.Name
		if r.IntN(2) == 0 {
			name.Script = "phantom"
			a.drifted[name] = true
			delete(a.drifted, live.Name)
		}
		p.table.Update([]*cache.Release{cache.NewRelease(script.Release{
			Name: name, Revision: live.Revision, Active: live.Runs, Enabled: live.Enabled, Pinned: !live.Pinned,
		})}, nil)
	case 2: // it is not there
		p.table.Update(nil, []script.Name{live.Name})
	default: // it is the one before
		older, ok := a.w.truth.asOf(live.Name, live.Revision-1)
		if !ok || older.release.Deleted {
			older.release = script.Release{Name: live.Name, Revision: live.Revision - 1, Active: live.Runs}
		}
		p.table.Update([]*cache.Release{cache.NewRelease(older.release)}, nil)
	}
}
