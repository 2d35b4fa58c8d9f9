package console_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/console"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

const (
	annsToken = "a-token-of-ann-that-is-long-enough"
	bobsToken = "a-token-of-bob-that-is-long-enough"
)

// people is a policy with ann and bob.
func people() string {
	return fmt.Sprintf("subjects:\n- {name: ann, tokens: ['sha256:%x'], grants: [{roles: [publish], tenants: [acme]}]}\n- {name: bob, tokens: ['sha256:%x'], grants: [{roles: [read], tenants: [shop]}]}\n",
		sha256.Sum256([]byte(annsToken)), sha256.Sum256([]byte(bobsToken)))
}

// by returns a browser that has signed in with a token.
func (f *fixture) by(token string) *http.Client {
	f.t.Helper()
	browser := f.browser()
	if resp := f.post(browser, "/session", `{"token":"`+token+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // send closes it
		f.t.Fatalf("sign in: %s", resp.Status)
	}
	return browser
}

// isIn reports whether the session of a browser is good.
func (f *fixture) isIn(browser *http.Client) bool {
	f.t.Helper()
	_, err := call[registryv1.CheckRequest, registryv1.CheckResponse](f, browser, "Check", &registryv1.CheckRequest{})
	if err != nil && connect.CodeOf(err) != connect.CodeUnauthenticated {
		f.t.Fatal(err)
	}
	return err == nil
}

// following returns a stream that has begun.
func (f *fixture) following(browser *http.Client) *connect.ServerStreamForClient[registryv1.WatchStatusResponse] {
	f.t.Helper()
	stream, err := watch(f.t.Context(), f, browser)
	if err != nil {
		f.t.Fatal(err)
	}
	if !stream.Receive() {
		f.t.Fatal(stream.Err())
	}
	return stream
}

// wantEnd waits for the end of a stream.
func wantEnd(t *testing.T, stream *connect.ServerStreamForClient[registryv1.WatchStatusResponse], code connect.Code) {
	t.Helper()
	for stream.Receive() {
	}
	if got := connect.CodeOf(stream.Err()); got != code {
		t.Errorf("the stream ended with %v, want %v", stream.Err(), code)
	}
	if detail(t, stream.Err()).GetMessage() == "" {
		t.Errorf("the stream does not say why it ended")
	}
}

// TestSessions: each acts as who has signed in, and ends when it should, with its streams.
func TestSessions(t *testing.T) {
	f := start(t, startRegistry(t, withPolicy(t, people())).RegistryTarget(), func(cfg *console.Config, _ *console.Site) { cfg.Announce = nil })
	ann, bob := f.by(annsToken), f.by(bobsToken)
	publish := &registryv1.PublishRequest{Tenant: "acme", Name: "x", Author: "a", Source: []byte("function handle() return 1 end")}
	if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, bob, "Publish", publish); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob publishes for acme: %v", err)
	}
	if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, ann, "Publish", publish); err != nil {
		t.Errorf("ann publishes for acme: %v", err)
	}
	t.Run("sign out", func(t *testing.T) {
		browser := f.by(annsToken)
		stream := f.following(browser)
		cookie := cookieOf(f, browser)
		if got := do2(t, f, browser, http.MethodDelete, "/session"); got != http.StatusNoContent {
			t.Errorf("sign out: %d", got)
		}
		wantEnd(t, stream, connect.CodeUnauthenticated)
		if thief := f.with(cookie); f.isIn(thief) {
			t.Error("the cookie is good after signing out")
		}
		if !f.isIn(ann) {
			t.Error("signing out of one browser ended the session of another")
		}
	})
	t.Run("fixation", func(t *testing.T) {
		attacker := cookieOf(f, f.by(bobsToken))
		victim := f.with(attacker)
		if resp := f.post(victim, "/session", `{"token":"`+annsToken+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // send closes it
			t.Fatal(resp.Status)
		}
		if cookieOf(f, victim).Value == attacker.Value {
			t.Error("signing in keeps the cookie that was there before")
		}
		if f.isIn(f.with(attacker)) {
			t.Error("the session that was there before goes on")
		}
		made := &http.Cookie{Name: attacker.Name, Value: "a-value-that-an-attacker-chose-and-that-nobody-made"}
		if f.isIn(f.with(made)) {
			t.Error("a cookie that nobody made is good")
		}
	})
	t.Run("idle", func(t *testing.T) {
		browser, other := f.by(annsToken), f.by(annsToken)
		stream := f.following(browser)
		f.clock.move(console.IdleTimeout - time.Second)
		if !f.isIn(other) {
			t.Error("the session ended early")
		}
		r, _ := f.send(browser, http.MethodPost, service+"Check", "{}", "Content-Type", "application/json", "Scriptorium-Background", "1") //nolint:bodyclose // send closes it
		if r.StatusCode != http.StatusOK {
			t.Errorf("a call in the background: %s", r.Status)
		}
		f.clock.move(time.Second)
		f.Sweep()
		wantEnd(t, stream, connect.CodeUnauthenticated)
		if f.isIn(browser) || !f.isIn(other) {
			t.Error("want the session that was idle to end, and no other")
		}
	})
	t.Run("absolute", func(t *testing.T) {
		browser := f.by(annsToken)
		for passed := time.Duration(0); passed < console.AbsoluteTimeout-20*time.Minute; passed += 20 * time.Minute {
			f.clock.move(20 * time.Minute)
			if !f.isIn(browser) {
				t.Fatalf("the session ended after %s", passed)
			}
		}
		f.clock.move(20 * time.Minute)
		if f.isIn(browser) {
			t.Error("the session goes on")
		}
	})
	t.Run("many of one caller", func(t *testing.T) {
		bob := f.by(bobsToken)
		first := f.by(annsToken)
		for range console.MaxPerCaller {
			f.by(annsToken)
		}
		if f.isIn(first) || !f.isIn(bob) {
			t.Error("want the oldest session of the one who has many to end, and no other")
		}
	})
}

// cookieOf returns the session's cookie of a browser.
func cookieOf(f *fixture, browser *http.Client) *http.Cookie {
	f.t.Helper()
	at, err := url.Parse(f.URL())
	if err != nil {
		f.t.Fatal(err)
	}
	cookies := browser.Jar.Cookies(at)
	if len(cookies) != 1 {
		f.t.Fatalf("there are the cookies %v", cookies)
	}
	return cookies[0]
}

// with returns a browser that has a cookie.
func (f *fixture) with(cookie *http.Cookie) *http.Client {
	f.t.Helper()
	at, err := url.Parse(f.URL())
	if err != nil {
		f.t.Fatal(err)
	}
	browser := f.browser()
	browser.Jar.SetCookies(at, []*http.Cookie{cookie})
	return browser
}

// TestBoundsOfASession: one session does not take what others need.
func TestBoundsOfASession(t *testing.T) {
	f := start(t, startRegistry(t, withPolicy(t, people())).RegistryTarget())
	greedy, other := f.by(annsToken), f.by(annsToken)
	for range console.MaxStreams {
		defer f.following(greedy).Close()
	}
	one, err := watch(t.Context(), f, greedy)
	if err != nil {
		t.Fatal(err)
	}
	if one.Receive() || connect.CodeOf(one.Err()) != connect.CodeResourceExhausted {
		t.Errorf("one more stream: %v", one.Err())
	}
	defer f.following(other).Close()
	limited := false
	for range 2 * console.RequestBurst {
		_, err := call[registryv1.CheckRequest, registryv1.CheckResponse](f, greedy, "Check", &registryv1.CheckRequest{})
		limited = limited || connect.CodeOf(err) == connect.CodeResourceExhausted
	}
	if !limited || !f.isIn(other) {
		t.Errorf("want the greedy session to be slowed down (%v), and no other", limited)
	}
}

// TestCookies: scripts do not see the session's cookie, other sites do not send it, and other hosts do not set it.
func TestCookies(t *testing.T) {
	ca := certtest.NewCA(t)
	pair := ca.Issue("console", certtest.Leaf{})
	registry := startRegistry(t).RegistryTarget()
	f := start(t, registry)
	resp := f.post(f.browser(), "/session", `{"code":"`+f.codes.get()+`"}`) //nolint:bodyclose // send closes it
	c := resp.Cookies()[0]
	if _, port, _ := strings.Cut(f.Addr().String(), ":"); c.Name != "scriptorium-"+port || c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("on loopback: %+v", c)
	}
	secure := start(t, registry, func(_ *console.Config, at *console.Site) { at.TLS.Cert, at.TLS.Key = pair.Cert, pair.Key })
	browser := trusting(t, ca)
	resp = secure.post(browser, "/session", `{"code":"`+secure.codes.get()+`"}`) //nolint:bodyclose // send closes it
	c = resp.Cookies()[0]
	if c.Name != "__Host-scriptorium" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != int(console.AbsoluteTimeout.Seconds()) {
		t.Errorf("with TLS: %+v", c)
	}
	if resp.ProtoMajor != 2 || resp.TLS.Version != tls.VersionTLS13 || resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("with TLS: %s, version %x, %v", resp.Proto, resp.TLS.Version, resp.Header)
	}
	var streams sync.WaitGroup
	for range console.MaxStreams { // on one connection
		streams.Go(func() {
			stream, err := watch(t.Context(), secure, browser)
			if err != nil || !stream.Receive() {
				t.Errorf("a stream among many: %v", err)
			}
			_ = stream.Close()
		})
	}
	streams.Wait()
}

// trusting returns a browser that trusts the CA, and speaks HTTP/2.
func trusting(t *testing.T, ca *certtest.CA) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(readFile(t, ca.File))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}}
}

// TestQuietStreams: a stream that has nothing to say for a while goes on.
func TestQuietStreams(t *testing.T) {
	ca := certtest.NewCA(t)
	pair := ca.Issue("console", certtest.Leaf{})
	registry := startRegistry(t).RegistryTarget()
	const timeout = 50 * time.Millisecond
	for name, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		f := start(t, registry, func(cfg *console.Config, at *console.Site) {
			cfg.WriteTimeout = timeout
			if secure {
				at.TLS.Cert, at.TLS.Key = pair.Cert, pair.Key
			}
		})
		browser := trusting(t, ca)
		if resp := f.post(browser, "/session", `{"code":"`+f.codes.get()+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // send closes it
			t.Fatal(resp.Status)
		}
		stream := f.following(browser)
		for began := time.Now(); time.Since(began) < 3*timeout; {
			f.clock.move(time.Second) // the session may ask again
			if !f.isIn(browser) {
				t.Fatal("signed out")
			}
		}
		publish := &registryv1.PublishRequest{Tenant: "acme", Name: strings.ToLower(name[5:6]) + "x", Author: "a", Source: []byte("function handle() return 1 end")}
		if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, browser, "Publish", publish); err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() {
			t.Errorf("%s: %v", name, stream.Err())
		}
		_ = stream.Close()
	}
}

// TestStop: streams end when the console stops, and say so.
func TestStop(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	stream := f.following(f.signedIn())
	stopped := make(chan error, 1)
	go func() { stopped <- f.Stop(context.Background()) }()
	wantEnd(t, stream, connect.CodeUnavailable)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestSites: a console that others can reach has TLS.
func TestSites(t *testing.T) {
	pair := certtest.NewCA(t).Issue("console", certtest.Leaf{})
	for _, tt := range []struct {
		name string
		at   console.Site
		flag string
	}{
		{"all addresses", console.Site{Listen: ":0"}, "--listen"},
		{"another address", console.Site{Listen: "192.0.2.1:0"}, "--listen"},
		{"no port", console.Site{Listen: "127.0.0.1"}, "--listen"},
		{"a certificate without a key", siteWith(pair.Cert, "", ""), "--tls-cert"},
		{"a URL with a path", siteWith("", "", "https://console.example/x"), "--url"},
		{"a plain URL of others", siteWith("", "", "http://console.example"), "--url"},
		{"a plain URL with TLS", siteWith(pair.Cert, pair.Key, "http://127.0.0.1:1"), "--url"},
		{"no URL", siteWith("", "", "console.example"), "--url"},
		{"a provider without TLS", siteOf(console.Provider{Issuer: "http://sso.example", ClientID: "x"}), "--oidc-issuer"},
		{"a provider without a client", siteOf(console.Provider{Issuer: "https://sso.example"}), "--oidc-client-id"},
		{"a client without a provider", siteOf(console.Provider{ClientID: "x"}), "--oidc-issuer"},
		{"no such secret", siteOf(console.Provider{Issuer: "https://sso.example", ClientID: "x", SecretFile: "none"}), "--oidc-client-secret-file"},
		{"no such CA", siteOf(console.Provider{Issuer: "https://sso.example", ClientID: "x", CA: "none"}), "--oidc-ca"},
	} {
		s, err := console.Start(t.Context(), tt.at, console.Config{Dial: nil, Assets: assets(), Clock: time.Now, Log: quiet()})
		if err == nil {
			_ = s.Stop(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), tt.flag) {
			t.Errorf("%s: %v, want an error about %s", tt.name, err, tt.flag)
		}
	}
}

func siteWith(cert, key, at string) console.Site {
	s := console.Site{Listen: "127.0.0.1:0", URL: at}
	s.TLS.Cert, s.TLS.Key = cert, key
	return s
}

func siteOf(p console.Provider) console.Site {
	return console.Site{Listen: "127.0.0.1:0", URL: "http://127.0.0.1:1", Provider: p}
}
