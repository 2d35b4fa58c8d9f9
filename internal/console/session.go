package console

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// The bounds of sessions.
const (
	idleTimeout     = 30 * time.Minute
	absoluteTimeout = 12 * time.Hour
	maxSessions     = 10_000 // the one that was used least recently ends
	cookieName      = "__Host-scriptorium"
)

// session is of one browser that somebody has signed in with.
type session struct {
	key        [sha256.Size]byte
	credential credentials.PerRPCCredentials // nil for those of the connection
	began      time.Time
	used       time.Time
	life       context.Context // ends with it
	end        context.CancelFunc
}

// sessions are kept in memory: a console that starts again asks everybody to sign in. They are found by the digest of what
// the cookie has. It is safe for concurrent use.
type sessions struct {
	clock func() time.Time

	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*list.Element
	used  *list.List // of *session, the most recently used first
}

func newSessions(clock func() time.Time) *sessions {
	return &sessions{clock: clock, byKey: map[[sha256.Size]byte]*list.Element{}, used: list.New()}
}

// begin makes a session, and the cookie for it.
func (s *sessions) begin(credential credentials.PerRPCCredentials) *http.Cookie {
	secret := make([]byte, 32)
	rand.Read(secret) //nolint:errcheck // never fails
	now := s.clock()
	made := &session{key: sha256.Sum256(secret), credential: credential, began: now, used: now}
	made.life, made.end = context.WithTimeout(context.Background(), absoluteTimeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[made.key] = s.used.PushFront(made)
	for s.used.Len() > maxSessions {
		s.remove(s.used.Back())
	}
	return &http.Cookie{
		Name: cookieName, Value: base64.RawURLEncoding.EncodeToString(secret), Path: "/",
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(absoluteTimeout.Seconds()),
	}
}

// find returns the session of a request; nil if it has none that is still good.
func (s *sessions) find(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	secret, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[sha256.Sum256(secret)]
	if e == nil {
		return nil
	}
	found, now := e.Value.(*session), s.clock()
	if now.Sub(found.used) > idleTimeout || now.Sub(found.began) > absoluteTimeout {
		s.remove(e)
		return nil
	}
	found.used = now
	s.used.MoveToFront(e)
	return found
}

// end ends a session, and its streams.
func (s *sessions) end(of *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[of.key]; e != nil {
		s.remove(e)
	}
}

// remove is end; mu is held.
func (s *sessions) remove(e *list.Element) {
	gone := s.used.Remove(e).(*session)
	delete(s.byKey, gone.key)
	gone.end()
}

type sessionKey struct{}

// require refuses requests without a session, and ends a stream with the session.
func (s *sessions) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := s.find(r)
		if found == nil {
			http.Error(w, "sign in", http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithCancel(context.WithValue(r.Context(), sessionKey{}, found))
		defer cancel()
		defer context.AfterFunc(found.life, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
