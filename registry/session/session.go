// Package session makes the sessions in which agents report, and verifies what is reported
// in them. The replicas of a registry share a few secrets, which the store keeps and which are
// replaced all the time. The key of a session follows from a secret, from the key that the
// replicas sign with, and from what the session says: any replica with that key verifies it
// without having heard of it before, and whoever reads the store makes none.
package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Store keeps the secrets. Errors are those of a registry.Store.
type Store interface {
	// Secrets returns what was stored last and the revision of that; nothing and 0 if nothing
	// was.
	Secrets(ctx context.Context) ([]byte, script.Revision, error)
	// PutSecrets stores the secrets in place of those of the revision. If these were replaced
	// meanwhile, it stores nothing.
	PutSecrets(ctx context.Context, secrets []byte, at script.Revision) error
	// Seen returns the highest revision that any answer of the store had.
	Seen() script.Revision
}

// Times of secrets.
const (
	// lifetime is how long a secret makes sessions. It verifies them for as long again. No
	// clock but that of a replica's own process measures it.
	lifetime = 10 * time.Minute
	// lookInterval is how often a replica reads the secrets: far less than the lifetime, as a
	// replica knows a secret before the first session is made with it.
	lookInterval = 5 * time.Second
)

// secret is one of those that the replicas share.
type secret struct {
	ID  string `json:"id"`
	Key []byte `json:"key"`
}

// secrets are the next one, the one that makes sessions now, and the one before.
type secrets [3]secret

// sound reports whether each one can make and verify sessions.
func (s secrets) sound() bool {
	for _, one := range s {
		if one.ID == "" || len(one.Key) != keyBytes {
			return false
		}
	}
	return true
}

// known are the secrets as this replica uses them.
type known struct {
	secrets
	ids  []string // of keys, in sessions: first those of the secrets and the key that signs
	keys [][]byte // derived from the secrets and from the keys of the sealer
}

const keyBytes = 32

func newSecret() secret {
	s := secret{ID: rand.Text(), Key: make([]byte, keyBytes)}
	_, _ = rand.Read(s.Key) // never fails
	return s
}

// Sessions makes sessions and verifies them. It is safe for concurrent use.
type Sessions struct {
	store  Store
	sealer *seal.Sealer
	log    *slog.Logger
	now    func() time.Time

	current atomic.Pointer[known] // nil until they are known

	mu    sync.Mutex
	at    script.Revision // of current
	since time.Time       // they are current here
}

// New returns sessions that know no secret until Load or Run has read them. They are those of
// replicas that sign with one of the sealer's keys. Clock tells the time; time.Now if nil.
func New(store Store, sealer *seal.Sealer, clock func() time.Time, log *slog.Logger) *Sessions {
	if clock == nil {
		clock = time.Now
	}
	return &Sessions{store: store, sealer: sealer, log: log, now: clock}
}

// Load reads the secrets, and makes them if there are none.
func (s *Sessions) Load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 3 { // to read, to store what is missing, and to read it
		if err := s.look(ctx); err != nil || s.current.Load() != nil {
			return err
		}
	}
	return script.Errorf(script.Unavailable, "", "the store does not keep the secrets of agents' sessions: see whether it has the fleet")
}

// Run reads the secrets from time to time, and replaces them if nobody else does, until ctx is
// done.
func (s *Sessions) Run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		err := s.look(ctx)
		s.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the secrets of agents' sessions were not read or replaced; those that are known stay in use", "error", err)
		}
	}
}

// look reads the secrets, and replaces them if they are old. What was stored is current when it
// is read again.
func (s *Sessions) look(ctx context.Context) error {
	data, at, err := s.store.Secrets(ctx)
	if err != nil {
		return err
	}
	var read secrets
	if at == 0 || json.Unmarshal(data, &read) != nil || !read.sound() {
		if current := s.current.Load(); current != nil {
			return s.put(ctx, current.secrets, at)
		}
		return s.put(ctx, secrets{newSecret(), newSecret(), newSecret()}, at)
	}
	if s.current.Load() == nil || at != s.at {
		current, err := s.derive(read)
		if err != nil {
			return err
		}
		s.current.Store(current)
		s.at, s.since = at, s.now()
	}
	if s.now().Sub(s.since) < lifetime {
		return nil
	}
	return s.put(ctx, secrets{newSecret(), read[0], read[1]}, at)
}

func (s *Sessions) derive(read secrets) (*known, error) {
	current := &known{secrets: read}
	for i := range s.sealer.KeyIDs() {
		for _, one := range read {
			key, err := s.sealer.SessionSecret(i, one.Key)
			if err != nil {
				return nil, script.Errorf(script.Internal, "", "derive the secrets of sessions: %w", err)
			}
			current.ids, current.keys = append(current.ids, one.ID+"."+s.sealer.KeyIDs()[i]), append(current.keys, key)
		}
	}
	return current, nil
}

func (s *Sessions) put(ctx context.Context, next secrets, at script.Revision) error {
	data, err := json.Marshal(next)
	if err != nil {
		return script.Errorf(script.Internal, "", "encode the secrets of sessions: %w", err)
	}
	return s.store.PutSecrets(ctx, data, at)
}

// Session is what is known of an agent that pulls.
type Session struct {
	Fleet, Agent, Incarnation string
	// Number orders the sessions of an agent: that of a later incarnation is not lower.
	Number script.Revision
	// Tenants are those that the agent follows.
	Tenants script.Selector
	// Identity is the policy's subject that pulls.
	Identity string
}

// Bounds of what an agent says of itself when it pulls.
const (
	MaxAgentBytes       = 253
	MaxIncarnationBytes = 64
)

// maxTokenBytes of a session: its tenants take up to 4 KiB.
const maxTokenBytes = 8 << 10

// Open makes a session for the agent of who asks. It is the zero Session while no secret is
// known.
func (s *Sessions) Open(who access.Identity, of Session) (seal.Session, error) {
	if n := len(of.Agent); n > MaxAgentBytes {
		return seal.Session{}, script.Errorf(script.Invalid, "agent", "has %d bytes, at most %d are allowed", n, MaxAgentBytes)
	}
	if n := len(of.Incarnation); n == 0 || n > MaxIncarnationBytes {
		return seal.Session{}, script.Errorf(script.Invalid, "incarnation", "has %d bytes, want 1 to %d", n, MaxIncarnationBytes)
	}
	if err := who.CheckAgent(of.Agent); err != nil {
		return seal.Session{}, err
	}
	current := s.current.Load()
	if current == nil {
		return seal.Session{}, nil
	}
	token, err := proto.Marshal(&eventv1.Session{
		KeyId: current.ids[1], Fleet: of.Fleet, Agent: of.Agent, Incarnation: of.Incarnation, Number: int64(s.store.Seen()),
		Tenants: of.Tenants.Globs(), Identity: who.Subject,
	})
	if err != nil {
		return seal.Session{}, script.Errorf(script.Invalid, "agent", "cannot have a session: %w", err)
	}
	if n := len(token); n > maxTokenBytes {
		return seal.Session{}, script.Errorf(script.Invalid, "tenants", "the session has %d bytes, at most %d are allowed: follow fewer tenants, or shorten the names of the policy's subjects", n, maxTokenBytes)
	}
	return seal.Session{Token: token, Key: seal.SessionKey(current.keys[1], token)}, nil
}

// maxAhead is how far the number of a session can be above what this replica has seen of the
// store: others have seen more, while this one cannot reach it. At 1,000 writes a second that
// takes four hours.
const maxAhead = 1 << 24

// Key returns the key of the session with the token, which proves nothing yet. The error's chain
// has seal.ErrUnknownKey if it is of a secret that is not known, or not any more; and
// seal.ErrForged if no store has its number.
func (s *Sessions) Key(token []byte) ([]byte, error) {
	m, err := decode(token)
	if err != nil {
		return nil, err
	}
	if current := s.current.Load(); current != nil {
		for i, id := range current.ids {
			if id == m.GetKeyId() {
				if seen := int64(s.store.Seen()); m.GetNumber() > seen+maxAhead {
					return nil, script.Errorf(script.Denied, "envelope.session", "has number %d, far above the store's revision %d: %w", m.GetNumber(), seen, seal.ErrForged)
				}
				return seal.SessionKey(current.keys[i], token), nil
			}
		}
	}
	return nil, script.Errorf(script.Denied, "envelope.session", "its secret is not one of this registry, or it is of a registry with another signing key: %w", seal.ErrUnknownKey)
}

// KeyIDs returns the key ids of the sessions that Key knows; nil while no secret is known.
func (s *Sessions) KeyIDs() []string {
	if current := s.current.Load(); current != nil {
		return current.ids
	}
	return nil
}

// decode reads a token, which may be a stranger's.
func decode(token []byte) (*eventv1.Session, error) {
	if n := len(token); n > maxTokenBytes {
		return nil, script.Errorf(script.Invalid, "envelope.session", "has %d bytes, at most %d are allowed", n, maxTokenBytes)
	}
	var m eventv1.Session
	if err := proto.Unmarshal(token, &m); err != nil {
		return nil, script.Errorf(script.Invalid, "envelope.session", "cannot be decoded: %w", err)
	}
	return &m, nil
}

// Read returns what a token says. It is true if the session's key has signed something.
func Read(token []byte) (Session, error) {
	m, err := decode(token)
	if err != nil {
		return Session{}, err
	}
	tenants, err := script.ParseSelector(m.GetTenants())
	return Session{
		Fleet: m.GetFleet(), Agent: m.GetAgent(), Incarnation: m.GetIncarnation(), Number: script.Revision(m.GetNumber()),
		Tenants: tenants, Identity: m.GetIdentity(),
	}, err
}
