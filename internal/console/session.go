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

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The bounds of sessions.
const (
	idleTimeout     = 30 * time.Minute
	absoluteTimeout = 12 * time.Hour
	maxSessions     = 10_000
	maxPerCaller    = 100 // of one caller; the one that was used least recently ends
	sweepEvery      = 15 * time.Second

	// Of one session, which all tabs of a browser share.
	requestsPerSecond = 50
	requestBurst      = 200
	maxCalls          = 32
	maxStreams        = 24

	maxCookie = 64 // bytes; the cookies of sessions are shorter
)

// identity is who has signed in, and how the registry knows that.
type identity struct {
	caller     string                        // the registry's name for who it is
	credential credentials.PerRPCCredentials // nil: the connection's own credentials
	until      time.Time                     // the credential is good; zero if that has no end, or is renewed
	ended      func()                        // is called when the session has ended, or cannot begin; may be nil
}

// leave says that no session has the identity any more.
func (i identity) leave() {
	if i.ended != nil {
		go i.ended()
	}
}

// session is of one browser that somebody has signed in with.
type session struct {
	identity

	key   [sha256.Size]byte
	began time.Time
	life  context.Context // ends with it, with the reason as its cause
	end   context.CancelCauseFunc
	pace  *rate.Limiter

	// The sessions' mu guards the rest.
	used    time.Time
	peers   *list.Element // in the list of the caller's
	calls   int
	streams int
}

// expired reports whether the session is over at that time.
func (s *session) expired(now time.Time) bool {
	return now.Sub(s.used) >= idleTimeout || now.Sub(s.began) >= absoluteTimeout || !s.until.IsZero() && !now.Before(s.until)
}

// sessions are kept in memory: a console that starts again asks everybody to sign in. They are found by the digest of what
// the cookie has, so whoever reads the memory of the process has no cookie. It is safe for concurrent use.
type sessions struct {
	clock  func() time.Time
	cookie cookies

	mu       sync.Mutex
	byKey    map[[sha256.Size]byte]*list.Element
	used     *list.List            // of *session, the most recently used first
	byCaller map[string]*list.List // of the elements in used, in that order
}

func newSessions(clock func() time.Time, cookie cookies) *sessions {
	return &sessions{clock: clock, cookie: cookie, byKey: map[[sha256.Size]byte]*list.Element{}, used: list.New(), byCaller: map[string]*list.List{}}
}

// begin makes a session, and the cookie for it.
func (s *sessions) begin(who identity) (*http.Cookie, error) {
	secret := make([]byte, 32)
	rand.Read(secret)
	now := s.clock()
	made := &session{identity: who, key: sha256.Sum256(secret), began: now, used: now, pace: rate.NewLimiter(requestsPerSecond, requestBurst)}
	made.life, made.end = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byCaller[who.caller]
	if own == nil {
		own = list.New()
	}
	for own.Len() >= maxPerCaller {
		s.remove(own.Back().Value.(*list.Element), errNoSession)
	}
	if s.used.Len() >= maxSessions {
		s.dropExpired(now)
	}
	if s.used.Len() >= maxSessions {
		who.leave()
		return nil, script.Errorf(script.Unavailable, "", "the console has %d sessions, as many as it may: try again later, or start another console", maxSessions)
	}
	s.byCaller[who.caller] = own
	e := s.used.PushFront(made)
	made.peers = own.PushFront(e)
	s.byKey[made.key] = e
	return s.cookie.session(base64.RawURLEncoding.EncodeToString(secret), int(absoluteTimeout.Seconds())), nil
}

// find returns the session of a request; nil if it has none that is good. active says that a person did something.
func (s *sessions) find(r *http.Request, active bool) *session {
	keys := s.keys(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	var e *list.Element
	for _, key := range keys {
		if e = s.byKey[key]; e != nil {
			break
		}
	}
	if e == nil {
		return nil
	}
	found, now := e.Value.(*session), s.clock()
	if found.expired(now) {
		s.remove(e, errNoSession)
		return nil
	}
	if active {
		found.used = now
		s.used.MoveToFront(e)
		s.byCaller[found.caller].MoveToFront(found.peers)
	}
	return found
}

// keys returns the keys of the sessions that the cookies of a request name. Without TLS, servers on other ports can set cookies
// of the same name.
func (s *sessions) keys(r *http.Request) (keys [][sha256.Size]byte) {
	for _, cookie := range r.CookiesNamed(s.cookie.name()) {
		if len(cookie.Value) > maxCookie {
			continue
		}
		if secret, err := base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			keys = append(keys, sha256.Sum256(secret))
		}
	}
	return keys
}

// finish ends the session of the key, and its streams, if there is one.
func (s *sessions) finish(key [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[key]; e != nil {
		s.remove(e, errNoSession)
	}
}

// sweep ends the sessions that are over. Without it, a stream could outlive its session.
func (s *sessions) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropExpired(s.clock())
}

// dropExpired is sweep; mu is held.
func (s *sessions) dropExpired(now time.Time) {
	for e := s.used.Back(); e != nil; {
		before := e.Prev()
		if e.Value.(*session).expired(now) {
			s.remove(e, errNoSession)
		}
		e = before
	}
}

// remove ends a session for the reason; mu is held.
func (s *sessions) remove(e *list.Element, why error) {
	gone := s.used.Remove(e).(*session)
	delete(s.byKey, gone.key)
	own := s.byCaller[gone.caller]
	own.Remove(gone.peers)
	if own.Len() == 0 {
		delete(s.byCaller, gone.caller)
	}
	gone.end(why)
	gone.leave()
}

// count returns how many there are, and how many streams they have.
func (s *sessions) count() (all, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.used.Front(); e != nil; e = e.Next() {
		streams += e.Value.(*session).streams
	}
	return s.used.Len(), streams
}

// enter takes a place for a call, or a stream, of the session until leave is called.
func (s *sessions) enter(of *session, stream bool) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places, most, what := &of.calls, maxCalls, "calls"
	if stream {
		places, most, what = &of.streams, maxStreams, "streams"
	}
	switch {
	case !of.pace.AllowN(s.clock(), 1):
		return nil, script.Errorf(script.Limit, "", "this session asks more than %d times a second: wait a moment", requestsPerSecond)
	case *places >= most:
		return nil, script.Errorf(script.Limit, "", "this session has %d %s open, as many as it may: close other tabs", most, what)
	}
	*places++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*places--
	}, nil
}

type sessionKey struct{}

// fromContext returns the session of a call; nil if there is none.
func fromContext(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}
