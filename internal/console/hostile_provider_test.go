package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// badProvider is a provider that a test has misbehave: no real one can.
type badProvider struct {
	issuer string
	key    *ecdsa.PrivateKey
	clock  func() time.Time

	mu     sync.Mutex
	nonces map[string]string // by code
	token  func(w http.ResponseWriter, r *http.Request, claims map[string]any) bool
	looked func(w http.ResponseWriter) bool

	revoked chan string // the tokens that are
	fresh   int         // the number in the one refresh token that is good
}

// on sets what happens to requests for tokens. The function may change the claims; if it reports false, it has answered.
func (p *badProvider) on(token func(http.ResponseWriter, *http.Request, map[string]any) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token = token
}

func startBadProvider(t *testing.T, ca *certtest.CA) *badProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pair := ca.Issue("provider", certtest.Leaf{})
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &badProvider{issuer: "https://" + l.Addr().String(), key: key, clock: time.Now, nonces: map[string]string{}, revoked: make(chan string, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.tokens)
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) { p.revoked <- r.PostFormValue("token") })
	s := &http.Server{Handler: mux, ReadHeaderTimeout: patience, ErrorLog: log.New(&logs{}, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return p
}

func (p *badProvider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	looked := p.looked
	p.mu.Unlock()
	if looked != nil && !looked(w) {
		return
	}
	answer(w, map[string]any{
		"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize", "token_endpoint": p.issuer + "/token", "jwks_uri": p.issuer + "/keys",
		"revocation_endpoint":                   p.issuer + "/revoke",
		"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (p *badProvider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
}

func (p *badProvider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code, q := rand.Text(), r.URL.Query()
	p.nonces[code] = q.Get("nonce")
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
}

// tokens gives tokens that last for an hour. Each refresh token is good once, as at careful providers.
func (p *badProvider) tokens(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	given := r.PostFormValue("refresh_token")
	if given != "" && given != fmt.Sprint("refresh-", p.fresh) {
		p.mu.Unlock()
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"error": "invalid_grant"})
		return
	}
	now := p.clock()
	claims := map[string]any{"iss": p.issuer, "aud": "console", "sub": "ann", "iat": time.Now().Unix(), "exp": now.Add(time.Hour).Unix()}
	if given == "" {
		claims["nonce"] = p.nonces[r.PostFormValue("code")]
	}
	hook := p.token
	p.mu.Unlock()
	if hook != nil && !hook(w, r, claims) {
		return
	}
	p.rotate()
	p.mu.Lock()
	body := map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 3600, "refresh_token": fmt.Sprint("refresh-", p.fresh)}
	p.mu.Unlock()
	if id := p.signed(claims); claims["none"] == nil {
		body["id_token"] = id
	}
	answer(w, body)
}

// rotate uses the refresh token up.
func (p *badProvider) rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh++
}

func (p *badProvider) signed(claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "one"}}, nil)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	object, err := signer.Sign(text)
	if err != nil {
		panic(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

// startBadSSO is startSSO with a provider that misbehaves.
func startBadSSO(t *testing.T) (*singleSignOn, *badProvider) {
	t.Helper()
	s := &singleSignOn{ca: certtest.NewCA(t)}
	p := startBadProvider(t, s.ca)
	s.issuer = p.issuer
	s.serve(t, fmt.Sprintf("127.0.0.1:%d", porttest.Port(t)), "console")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock = s.clock.time // tokens last by the console's clock
	return s, p
}

// in returns a browser that has signed in. The registry may have to fetch the provider's keys first.
func (s *singleSignOn) in() *http.Client {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		browser := s.browser()
		at, _ := get(s.t, browser, s.URL()+"/oidc/start?to=/signin/?then=1")
		if at.RawQuery == "then=1" {
			return browser
		}
		_, why := get(s.t, browser, s.URL()+"/session")
		if !strings.Contains(why, "still fetching") && !strings.Contains(why, "did not have") || time.Now().After(deadline) {
			s.t.Fatalf("signed in to %s: %s\n%s", at, why, s.log)
		}
	}
}

// wantRevoked waits until a token is revoked.
func (p *badProvider) wantRevoked(t *testing.T) {
	t.Helper()
	select {
	case <-p.revoked:
	case <-time.After(patience):
		t.Error("no token is revoked")
	}
}
