package sim

import (
	"context"
	"math/rand/v2"
	"sync"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// secrets are those that the replicas make agents' sessions with. No fault keeps replicas
// from them: sessions that nobody gets are tested elsewhere.
type secrets struct {
	truth *truth

	mu   sync.Mutex
	data []byte
	at   script.Revision
}

// Secrets implements session.Store.
func (s *secrets) Secrets(context.Context) ([]byte, script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.at, nil
}

// PutSecrets implements session.Store.
func (s *secrets) PutSecrets(_ context.Context, data []byte, at script.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == s.at {
		s.data, s.at = data, at+1
	}
	return nil
}

// Seen implements session.Store.
func (s *secrets) Seen() script.Revision { return s.truth.head(script.Selector{}) }

// strangersSecret is what somebody makes sessions with who knows none of the registries' secrets.
var strangersSecret = []byte("stranger")

// forgeStatus sends a false status to all replicas.
func (w *world) forgeStatus(st step, r *rand.Rand) {
	a := w.agents[st.who%len(w.agents)]
	m, how, ok := w.falseStatus(a, r)
	if !ok {
		return
	}
	w.log("#%d a status is forged: %s, %s", st.number, m.subject, how)
	for _, to := range w.replicas {
		to.peer.deliver(m)
	}
}

// falseStatus is a status that the agent has not sent, or not now.
func (w *world) falseStatus(a *agent, r *rand.Rand) (m message, how string, ok bool) {
	lie := &eventv1.Status{
		Agent: a.name, Incarnation: "forged", Sequence: 1 << 40, Tenants: a.tenants.Globs(),
		ActivatedRevision: int64(w.truth.head(script.Selector{})),
	}
	lie.Fleet, _ = w.truth.Fleet(w.ctx) // never fails
	var in seal.Session
	switch r.IntN(4) {
	case 0:
		how = "in no session"
	case 1:
		how = "in a stranger's session"
		token, err := proto.Marshal(&eventv1.Session{KeyId: "stranger", Agent: a.name, Incarnation: lie.GetIncarnation(), Number: 1 << 40, Tenants: lie.GetTenants(), Identity: access.Everybody("").Name})
		if err != nil {
			return message{}, "", false
		}
		in = seal.Session{Token: token, Key: seal.SessionKey(strangersSecret, token)}
	default:
		return w.overheardStatus(r)
	}
	data, err := seal.SealStatus(lie, in)
	return message{subject: subjects.Status(a.name), data: data}, how, err == nil
}

// overheardStatus is one that some agent has sent: as it was, or changed.
func (w *world) overheardStatus(r *rand.Rand) (m message, how string, ok bool) {
	tape := w.bus.overheardStatuses()
	if len(tape) == 0 {
		return message{}, "", false
	}
	heard := tape[r.IntN(len(tape))]
	if r.IntN(2) == 0 {
		return heard, "replayed", true
	}
	var env eventv1.Envelope
	if proto.Unmarshal(heard.data, &env) != nil || len(env.GetPayload()) == 0 {
		return message{}, "", false
	}
	env.Payload[r.IntN(len(env.GetPayload()))] ^= 1 << r.IntN(8)
	data, err := proto.Marshal(&env)
	return message{subject: heard.subject, data: data}, "altered", err == nil
}
