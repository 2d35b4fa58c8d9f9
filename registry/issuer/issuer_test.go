package issuer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/issuer"
	"github.com/scriptorium-dev/scriptorium/script"
)

// provider is an OpenID Connect provider.
type provider struct {
	*httptest.Server
	issuer access.Issuer

	mu    sync.Mutex
	keys  jose.JSONWebKeySet
	fails bool
	asked atomic.Int64 // for keys
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.fails || r.Header.Get("Authorization") != "Bearer the registry's" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(p.keys)
	})
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	dir := t.TempDir()
	p.issuer = access.Issuer{
		Name: "ci", URL: p.URL, Audiences: []string{"scriptorium", "other"},
		CAFile: filepath.Join(dir, "ca.pem"), TokenFile: filepath.Join(dir, "token"),
	}
	write := func(path string, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(p.issuer.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
	write(p.issuer.TokenFile, []byte("the registry's\n"))
	return p
}

// addKey adds a key to those that the provider shows.
func (p *provider) addKey(t *testing.T, id string) jose.Signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.keys.Keys = append(p.keys.Keys, jose.JSONWebKey{Key: private.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	p.mu.Unlock()
	return signer(t, jose.ES256, private, id)
}

func signer(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string) jose.Signer {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sign(t *testing.T, s jose.Signer, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (p *provider) claims(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": p.URL, "sub": "repo:acme/edge:ref:refs/heads/main", "aud": "scriptorium",
		"exp": time.Now().Add(time.Hour).Unix(), "repository_owner": "acme",
	}
	for name, value := range changes {
		claims[name] = value
	}
	return claims
}

// run has keys fetch the provider's, and returns when they have.
func run(t *testing.T, p *provider) *issuer.Keys {
	t.Helper()
	keys := issuer.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	var running sync.WaitGroup
	running.Go(func() { keys.Run(t.Context(), func() []access.Issuer { return []access.Issuer{p.issuer} }) })
	t.Cleanup(running.Wait)
	return keys
}

// await verifies the token until the answer is not that keys are missing.
func await(t *testing.T, p *provider, keys *issuer.Keys, token string, done func(error) bool) (access.Claims, error) {
	t.Helper()
	for {
		claims, err := keys.Verify(p.issuer, token, time.Now())
		if done(err) {
			return claims, err
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("still %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func fetched(err error) bool { return script.KindOf(err) != script.Unavailable }

func TestVerify(t *testing.T) {
	p := newProvider(t)
	ours := p.addKey(t, "first")
	keys := run(t, p)
	claims, err := await(t, p, keys, sign(t, ours, p.claims(nil)), fetched)
	if err != nil || claims.Subject != "repo:acme/edge:ref:refs/heads/main" || claims.All["repository_owner"] != "acme" || time.Until(claims.Expires) < 50*time.Minute {
		t.Fatalf("%+v, %v", claims, err)
	}
	thief, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, tt := range map[string]struct {
		token string
		want  access.Reason
	}{
		"another key of that name": {sign(t, signer(t, jose.ES256, thief, "first"), p.claims(nil)), access.InvalidJWT},
		"a key nobody knows":       {sign(t, signer(t, jose.ES256, thief, "second"), p.claims(nil)), access.InvalidJWT},
		"the public key as secret": {sign(t, signer(t, jose.HS256, []byte(strings.Repeat("k", 32)), "first"), p.claims(nil)), access.InvalidJWT},
		"no signature":             {strings.Join(append(strings.Split(sign(t, ours, p.claims(nil)), ".")[:2], ""), "."), access.InvalidJWT},
		"expired":                  {sign(t, ours, p.claims(map[string]any{"exp": now.Add(-time.Second).Unix()})), access.ExpiredToken},
		"without an end":           {sign(t, ours, p.claims(map[string]any{"exp": nil})), access.InvalidJWT},
		"not yet":                  {sign(t, ours, p.claims(map[string]any{"nbf": now.Add(time.Hour).Unix()})), access.InvalidJWT},
		"for somebody else":        {sign(t, ours, p.claims(map[string]any{"aud": []string{"shop"}})), access.InvalidJWT},
		"for nobody":               {sign(t, ours, p.claims(map[string]any{"aud": nil})), access.InvalidJWT},
		"of another issuer":        {sign(t, ours, p.claims(map[string]any{"iss": "https://other.example"})), access.InvalidJWT},
		"no token":                 {"a.b.c", access.InvalidJWT},
	} {
		_, err := keys.Verify(p.issuer, tt.token, now)
		if unknown, ok := errors.AsType[*access.Unknown](err); !ok || unknown.Reason != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if _, err := keys.Verify(p.issuer, sign(t, ours, p.claims(map[string]any{"aud": []string{"x", "other"}})), now); err != nil {
		t.Errorf("the second audience: %v", err)
	}
}

// TestAStrangerCannotMakeTheRegistryAsk: tokens with keys that nobody knows lead to few
// requests.
func TestAStrangerCannotMakeTheRegistryAsk(t *testing.T) {
	p := newProvider(t)
	ours := p.addKey(t, "first")
	keys := run(t, p)
	if _, err := await(t, p, keys, sign(t, ours, p.claims(nil)), fetched); err != nil {
		t.Fatal(err)
	}
	stranger := newProvider(t).addKey(t, "x")
	for range 1000 {
		if _, err := keys.Verify(p.issuer, sign(t, stranger, p.claims(nil)), time.Now()); err == nil {
			t.Fatal("a stranger's token is valid")
		}
	}
	if n := p.asked.Load(); n > 2 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// TestAnIssuerThatFails: the keys stay while it fails, and a replica without any says so.
func TestAnIssuerThatFails(t *testing.T) {
	p := newProvider(t)
	ours := p.addKey(t, "first")
	p.fails = true
	keys := run(t, p)
	token := sign(t, ours, p.claims(nil))
	_, err := await(t, p, keys, token, func(err error) bool { return strings.Contains(err.Error(), "cannot fetch") })
	if script.KindOf(err) != script.Unavailable {
		t.Errorf("%v", err)
	}
	p.mu.Lock()
	p.fails = false
	p.mu.Unlock()
	if _, err := await(t, p, keys, token, fetched); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	p.fails = true
	p.mu.Unlock()
	if _, err := keys.Verify(p.issuer, token, time.Now().Add(30*time.Minute)); err != nil {
		t.Errorf("while the issuer fails: %v", err)
	}
	if _, err := keys.Verify(p.issuer, token, time.Now().Add(25*time.Hour)); script.KindOf(err) != script.Unavailable {
		t.Errorf("after a day: %v", err)
	}
}
