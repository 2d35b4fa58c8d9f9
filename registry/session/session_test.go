package session_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// store keeps the secrets of any number of replicas.
type store struct {
	mu     sync.Mutex
	data   []byte
	at     script.Revision
	writes int
	broken bool
	deaf   bool // it stores nothing, without an error
}

func (s *store) Secrets(context.Context) ([]byte, script.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, 0, errors.New("the store is away")
	}
	return s.data, s.at, nil
}

func (s *store) PutSecrets(_ context.Context, data []byte, at script.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == s.at && !s.deaf {
		s.data, s.at = data, s.at+7
		s.writes++
	}
	return nil
}

func (s *store) Seen() script.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// signer signs with the key of the number.
func signer(number byte, former ...byte) *seal.Sealer {
	var keys []ed25519.PrivateKey
	for _, number := range append([]byte{number}, former...) {
		keys = append(keys, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize)))
	}
	return seal.NewSealer(keys[0], keys[1:]...)
}

func newSessions(t *testing.T, s *store) *session.Sessions {
	t.Helper()
	return newSessionsOf(t, s, signer(1))
}

func newSessionsOf(t *testing.T, s *store, sealer *seal.Sealer) *session.Sessions {
	t.Helper()
	made := session.New(s, sealer, nil, slog.New(slog.DiscardHandler))
	if err := made.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return made
}

func open(t *testing.T, s *session.Sessions) seal.Session {
	t.Helper()
	in, err := s.Open(access.Everybody("unix"), session.Session{Fleet: "F1", Agent: "a", Incarnation: "1"})
	if err != nil || len(in.Key) != 32 {
		t.Fatal(in, err)
	}
	return in
}

// believes reports whether the replica believes a status of the session.
func believes(t *testing.T, s *session.Sessions, in seal.Session) bool {
	t.Helper()
	data, err := seal.SealStatus(&eventv1.Status{Agent: "a"}, in)
	if err != nil {
		t.Fatal(err)
	}
	_, err = seal.OpenStatus(data, s.Key)
	if err != nil && !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("it is refused as %v", err)
	}
	return err == nil
}

// TestReplicas: any replica verifies the sessions of any other, for as long as agents take to
// get the next one and not for much longer; and the store is written seldom.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		first, second := newSessions(t, s), newSessions(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go first.Run(ctx)
		<-time.After(2 * time.Second)
		go second.Run(ctx)
		old := open(t, first)
		for range 120 { // an hour
			<-time.After(30 * time.Second)
			for _, pair := range [][2]*session.Sessions{{first, second}, {second, first}} {
				if !believes(t, pair[1], open(t, pair[0])) {
					t.Fatal("a replica does not know a session of the other")
				}
			}
		}
		if believes(t, first, old) || believes(t, second, old) {
			t.Error("a session lasts an hour without a word of its agent")
		}
		if s.writes < 5 || s.writes > 8 {
			t.Errorf("the secrets were written %d times in an hour", s.writes)
		}
		recent := open(t, first)
		<-time.After(9 * time.Minute)
		if !believes(t, newSessions(t, s), recent) {
			t.Error("a replica that was just started does not believe a session of nine minutes ago")
		}
	})
}

// TestSessionsEnd: who gets no new one cannot report any more after 20 minutes.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := newSessions(t, &store{})
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go sessions.Run(ctx)
		in := open(t, sessions)
		<-time.After(2 * time.Minute)
		later := open(t, sessions)
		<-time.After(17 * time.Minute)
		if !believes(t, sessions, in) {
			t.Error("it ends before its secret was replaced twice")
		}
		<-time.After(time.Minute + 4*5*time.Second + time.Second) // to replace takes two looks, of each secret
		if believes(t, sessions, in) || believes(t, sessions, later) {
			t.Error("a session lasts for longer than 20 minutes")
		}
	})
}

// TestStoreAway: what was known stays in use.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		sessions := newSessions(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go sessions.Run(ctx)
		in := open(t, sessions)
		s.mu.Lock()
		s.broken = true
		s.mu.Unlock()
		<-time.After(time.Hour)
		if !believes(t, sessions, in) {
			t.Error("the secrets are forgotten")
		}
		s.mu.Lock()
		s.broken, s.data, s.at = false, []byte("garbage"), 3
		s.mu.Unlock()
		<-time.After(10 * time.Second)
		if !believes(t, sessions, in) || !believes(t, newSessions(t, s), in) {
			t.Error("garbage in the store ends sessions")
		}
	})
}

// TestNoSecrets: a replica that has none yet gives no sessions, and believes none.
func TestNoSecrets(t *testing.T) {
	s := &store{deaf: true}
	none := session.New(s, signer(1), nil, slog.New(slog.DiscardHandler))
	if err := none.Load(t.Context()); script.KindOf(err) != script.Unavailable {
		t.Errorf("Load: %v", err)
	}
	in, err := none.Open(access.Everybody("unix"), session.Session{Agent: "a", Incarnation: "1"})
	if err != nil || len(in.Key) != 0 {
		t.Errorf("Open: %v, %v", in, err)
	}
	if believes(t, none, open(t, newSessions(t, &store{}))) {
		t.Error("a session of nobody's is believed")
	}
}

// TestWhoCanHaveSessions: of what an agent says of itself, each part has its bounds.
func TestWhoCanHaveSessions(t *testing.T) {
	s := newSessions(t, &store{})
	for _, tt := range []struct {
		who                access.Identity
		agent, incarnation string
		kind               script.Kind
	}{
		{access.Everybody("unix"), strings.Repeat("a", 254), "1", script.Invalid},
		{access.Everybody("unix"), "a", "", script.Invalid},
		{access.Everybody("unix"), "a", strings.Repeat("1", 65), script.Invalid},
		{access.Everybody("unix"), "a\xff", "1", script.Invalid},
		{access.Identity{Name: "ci"}, "a", "1", script.Denied},
	} {
		if _, err := s.Open(tt.who, session.Session{Agent: tt.agent, Incarnation: tt.incarnation}); script.KindOf(err) != tt.kind {
			t.Errorf("%.10q, %.10q: %v, want %s", tt.agent, tt.incarnation, err, tt.kind)
		}
	}
}

// TestTheStoreMakesNoSessions: whoever reads the secrets in the store, or writes them, has no
// session that a registry believes; nor has a registry with another signing key.
func TestTheStoreMakesNoSessions(t *testing.T) {
	s := &store{}
	sessions := newSessions(t, s)
	genuine := open(t, sessions)
	var kept []struct{ Key []byte }
	if err := json.Unmarshal(s.data, &kept); err != nil || len(kept) != 3 {
		t.Fatal(kept, err)
	}
	for _, one := range kept {
		unsigned, err := seal.Unsigned().SessionSecret(0, one.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range [][]byte{one.Key, unsigned} {
			data, err := seal.SealStatus(&eventv1.Status{Agent: "a"}, seal.Session{Token: genuine.Token, Key: seal.SessionKey(secret, genuine.Token)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := seal.OpenStatus(data, sessions.Key); !errors.Is(err, seal.ErrForged) {
				t.Errorf("a session that is made of the store's secret: %v", err)
			}
		}
	}
	rotated, same, unsigned := newSessionsOf(t, s, signer(2)), newSessionsOf(t, s, signer(1)), newSessionsOf(t, s, seal.Unsigned())
	if believes(t, rotated, genuine) || believes(t, unsigned, genuine) || !believes(t, same, genuine) {
		t.Error("a session is one of the replicas with the same signing key, and of no others")
	}
	if next := open(t, rotated); !believes(t, rotated, next) || believes(t, sessions, next) {
		t.Error("the new key's session is not one of replicas with the new key alone")
	}
	both := newSessionsOf(t, s, signer(2, 1))
	if !believes(t, both, genuine) || !believes(t, both, open(t, rotated)) || !believes(t, rotated, open(t, both)) {
		t.Error("a replica with a former key does not believe the sessions of both keys, or makes them of the former one")
	}
	if !believes(t, unsigned, open(t, unsigned)) {
		t.Error("registries that do not sign have no sessions")
	}
}

// further is a store of which more was seen.
type further struct {
	*store
	by script.Revision
}

func (f further) Seen() script.Revision { return f.store.Seen() + f.by }

// TestNumbersOfSessions: a number that the store cannot have given orders nothing, whoever has
// the keys; one that another replica has seen does.
func TestNumbersOfSessions(t *testing.T) {
	s := &store{}
	sessions := newSessions(t, s)
	for by, want := range map[script.Revision]bool{0: true, 1_000_000: true, 1 << 40: false, 1<<63 - 1000: false} {
		other := session.New(further{s, by}, signer(1), nil, slog.New(slog.DiscardHandler))
		if err := other.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := sessions.Key(open(t, other).Token); (err == nil) != want || err != nil && !errors.Is(err, seal.ErrForged) {
			t.Errorf("a session of %d revisions ahead: %v", by, err)
		}
	}
}

// TestLargeTokens: what is larger than a session can be is not decoded; the largest one is.
func TestLargeTokens(t *testing.T) {
	sessions := newSessions(t, &store{})
	globs := make([]string, script.MaxSelectorGlobs)
	for i := range globs {
		globs[i] = fmt.Sprintf("%0*d", script.MaxGlobLen, i)
	}
	tenants, err := script.ParseSelector(globs)
	if err != nil {
		t.Fatal(err)
	}
	largest := session.Session{
		Fleet: strings.Repeat("f", 64), Agent: strings.Repeat("a", session.MaxAgentBytes),
		Incarnation: strings.Repeat("i", session.MaxIncarnationBytes), Tenants: tenants,
	}
	in, err := sessions.Open(access.Identity{Subject: strings.Repeat("s", 2000), AnyAgent: true}, largest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sessions.Key(in.Token); err != nil {
		t.Error(err)
	}
	if _, err := sessions.Open(access.Identity{Subject: strings.Repeat("s", 8000), AnyAgent: true}, largest); script.KindOf(err) != script.Invalid {
		t.Errorf("a session that nobody can use: %v", err)
	}
	padded := slices.Concat(in.Token, make([]byte, 8<<10))
	_, keyErr := sessions.Key(padded)
	_, readErr := session.Read(padded)
	for _, err := range []error{keyErr, readErr} {
		if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "at most 8192") {
			t.Errorf("a large token: %v", err)
		}
	}
}

// TestSessionsNameSubjects: all holders of tokens of a subject are one identity, so that one of
// them has no more agents than another subject.
func TestSessionsNameSubjects(t *testing.T) {
	who := access.Identity{Name: "ci(repo:acme)", Subject: "ci", AnyAgent: true}
	in, err := newSessions(t, &store{}).Open(who, session.Session{Agent: "a", Incarnation: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if of, err := session.Read(in.Token); err != nil || of.Identity != "ci" {
		t.Errorf("%+v, %v", of, err)
	}
}

// BenchmarkVerify is what it takes to verify a status.
func BenchmarkVerify(b *testing.B) {
	s := session.New(&store{}, signer(1), nil, slog.New(slog.DiscardHandler))
	if err := s.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, agents := range []int{100, 10_000} {
		statuses := make([][]byte, agents)
		for i := range statuses {
			name := fmt.Sprintf("node-%05d.eu-central-1.compute.internal", i)
			in, err := s.Open(access.Everybody("unix"), session.Session{Fleet: "F1", Agent: name, Incarnation: "IHXQ5SLKZ7ZTGCNZ3FD3QP2GYM"})
			if err != nil {
				b.Fatal(err)
			}
			if statuses[i], err = seal.SealStatus(&eventv1.Status{
				Fleet: "F1", Agent: name, Incarnation: "IHXQ5SLKZ7ZTGCNZ3FD3QP2GYM", Labels: map[string]string{"zone": "eu-central-1a", "pool": "edge"},
			}, in); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := seal.OpenStatus(statuses[i%agents], s.Key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
