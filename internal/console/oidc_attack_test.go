package console_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// TestIDTokensOfOthers: a person does not sign in with an id token that is of another sign-in, client or provider. The refresh
// token that came with it ends.
func TestIDTokensOfOthers(t *testing.T) {
	s, p := startBadSSO(t)
	s.in()
	for name, change := range map[string]func(map[string]any){
		"another nonce":    func(c map[string]any) { c["nonce"] = "other" },
		"no nonce":         func(c map[string]any) { delete(c, "nonce") },
		"another audience": func(c map[string]any) { c["aud"] = "other" },
		"another issuer":   func(c map[string]any) { c["iss"] = "https://sso.example" },
		"expired":          func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no id token":      func(c map[string]any) { c["none"] = true },
	} {
		p.on(func(_ http.ResponseWriter, _ *http.Request, claims map[string]any) bool { change(claims); return true })
		browser := s.browser()
		end, _ := get(t, browser, s.URL()+"/oidc/start")
		if _, state := get(t, browser, s.URL()+"/session"); end.Path != "/signin/" || !strings.Contains(state, `"signedIn":false`) || !strings.Contains(state, `"failure"`) {
			t.Errorf("%s: %s, %s", name, end, state)
		}
		p.wantRevoked(t)
		s.clock.move(time.Second * 10)
	}
	if strings.Contains(s.log.String(), "eyJ") {
		t.Errorf("a token is in the log:\n%s", s.log)
	}
}

// check calls the registry.
func (s *singleSignOn) check(ctx context.Context, browser *http.Client) error {
	_, err := connect.NewClient[registryv1.CheckRequest, registryv1.CheckResponse](browser, s.URL()+service+"Check").CallUnary(ctx, connect.NewRequest(&registryv1.CheckRequest{}))
	return err
}

// ageing has the session's token end in half a minute, without the session being idle.
func (s *singleSignOn) ageing(browser *http.Client) {
	s.t.Helper()
	for _, by := range []time.Duration{20 * time.Minute, 20 * time.Minute, 19*time.Minute + 30*time.Second} {
		if err := s.check(s.t.Context(), browser); err != nil {
			s.t.Fatal(err)
		}
		s.clock.move(by)
	}
}

// TestRenewalsOfOthers: a session does not go on as somebody else, or with an id token that is not for the console.
func TestRenewalsOfOthers(t *testing.T) {
	s, p := startBadSSO(t)
	for _, tt := range []struct {
		name, claim, value string
		now, later         connect.Code // of calls before and after the end of the token that was good
	}{
		{"another subject", "sub", "bob", connect.CodeUnauthenticated, connect.CodeUnauthenticated},
		{"another audience", "aud", "other", 0, connect.CodeUnavailable},
		{"another issuer", "iss", "https://sso.example", 0, connect.CodeUnavailable},
	} {
		p.on(nil)
		browser := s.in()
		s.ageing(browser)
		p.on(func(_ http.ResponseWriter, _ *http.Request, claims map[string]any) bool {
			claims[tt.claim] = tt.value
			return true
		})
		for range 2 {
			if err := s.check(t.Context(), browser); err != nil && connect.CodeOf(err) != tt.now || err == nil && tt.now != 0 {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.now)
			}
		}
		s.clock.move(time.Minute)
		if err := s.check(t.Context(), browser); connect.CodeOf(err) != tt.later {
			t.Errorf("%s, after the end of the token: %v, want %v", tt.name, err, tt.later)
		}
	}
}

// TestAProviderThatIsBusy: a session outlives answers that say nothing of the person. Sign-ins with such answers are no failed attempts.
func TestAProviderThatIsBusy(t *testing.T) {
	s, p := startBadSSO(t)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway} {
		p.on(nil)
		browser := s.in()
		s.ageing(browser)
		p.on(func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
			w.WriteHeader(status)
			return false
		})
		if err := s.check(t.Context(), browser); err != nil {
			t.Errorf("%d: %v: the token is good", status, err)
		}
		p.on(nil)
		s.clock.move(time.Minute)
		if err := s.check(t.Context(), browser); err != nil {
			t.Errorf("%d: %v: the provider is well again", status, err)
		}
	}
	p.on(func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		w.WriteHeader(http.StatusBadGateway)
		return false
	})
	for range 12 { // more than an address may fail
		browser := s.browser()
		get(t, browser, s.URL()+"/oidc/start")
		if _, state := get(t, browser, s.URL()+"/session"); !strings.Contains(state, "does not answer: try again") {
			t.Errorf("a sign-in meanwhile: %s", state)
		}
	}
	p.on(nil)
	s.in()
}

// TestACallThatGoesAwayDuringARenewal: the tokens that the provider gives meanwhile are kept, because the old ones are used up.
func TestACallThatGoesAwayDuringARenewal(t *testing.T) {
	s, p := startBadSSO(t)
	browser := s.in()
	s.ageing(browser)
	begun, goOn := make(chan struct{}), make(chan struct{})
	p.on(func(http.ResponseWriter, *http.Request, map[string]any) bool {
		p.rotate()
		close(begun)
		<-goOn
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- s.check(ctx, browser) }()
	<-begun
	p.on(nil)
	cancel()
	<-gone
	next := make(chan error, 1)
	go func() { next <- s.check(t.Context(), browser) }()
	close(goOn)
	if err := <-next; err != nil {
		t.Errorf("the next call: %v", err)
	}
	s.clock.move(10 * time.Second)
	if err := s.check(t.Context(), browser); err != nil {
		t.Errorf("the call after it: %v", err)
	}
}

// TestASignInOverASession: the session that the browser had ends, and its refresh token. Browsers do not show it where the provider
// sends them. It goes on until somebody has signed in.
func TestASignInOverASession(t *testing.T) {
	s, p := startBadSSO(t)
	browser := s.in()
	before := s.with(cookieOf(s.fixture, browser))
	p.on(func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		w.WriteHeader(http.StatusForbidden)
		return false
	})
	get(t, browser, s.URL()+"/oidc/start")
	if !s.isIn(before) {
		t.Error("a sign-in that failed ended the session")
	}
	p.on(nil)
	if at, _ := get(t, browser, s.URL()+"/oidc/start?to=/signin/?again=1"); at.RawQuery != "again=1" {
		t.Fatalf("signed in to %s", at)
	}
	if s.isIn(before) || !s.isIn(browser) {
		t.Error("want the session that was there before to end, and the other to go on")
	}
	p.wantRevoked(t)
}

// TestNoRoomForASession: a sign-in that the console has no room for leaves no refresh token that is good.
func TestNoRoomForASession(t *testing.T) {
	s, p := startBadSSO(t)
	s.in()
	s.Fill(console.MaxSessions)
	browser := s.browser()
	get(t, browser, s.URL()+"/oidc/start")
	if _, state := get(t, browser, s.URL()+"/session"); !strings.Contains(state, "as many as it may") {
		t.Fatalf("the session says %s", state)
	}
	p.wantRevoked(t)
}

// TestASlowProvider: who asks while a slow provider was just asked in vain does not wait for it again.
func TestASlowProvider(t *testing.T) {
	s, p := startBadSSO(t)
	var asked atomic.Int32
	p.mu.Lock()
	p.looked = func(w http.ResponseWriter) bool {
		asked.Add(1)
		s.clock.move(10 * time.Second) // it takes as long as the console waits
		w.WriteHeader(http.StatusBadGateway)
		return false
	}
	p.mu.Unlock()
	first := asked.Load()
	for range 5 {
		get(t, s.browser(), s.URL()+"/oidc/start")
	}
	if got := asked.Load() - first; got > 2 { // the registry may be one that asked
		t.Errorf("sign-ins asked the provider %d times, want once", got)
	}
	p.mu.Lock()
	p.looked = nil
	p.mu.Unlock()
	s.clock.move(10 * time.Second)
	browser := s.in()
	s.ageing(browser)
	var renewals atomic.Int32
	p.on(func(w http.ResponseWriter, _ *http.Request, _ map[string]any) bool {
		renewals.Add(1)
		s.clock.move(5 * time.Second)
		w.WriteHeader(http.StatusBadGateway)
		return false
	})
	for range 5 {
		if err := s.check(t.Context(), browser); err != nil {
			t.Errorf("while the token is good: %v", err)
		}
	}
	const once = 2 // a client that does not know how to show its secret tries both ways
	if got := renewals.Load(); got != once {
		t.Errorf("calls sent the provider %d requests, want %d", got, once)
	}
	s.clock.move(time.Minute)
	for range 5 {
		if err := s.check(t.Context(), browser); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("after the token's end: %v", err)
		}
	}
	if got := renewals.Load(); got != 2*once {
		t.Errorf("calls sent the provider %d requests, want %d", got, 2*once)
	}
}
