// Package issuer verifies JSON Web Tokens of OpenID Connect issuers, such as CI systems and
// Kubernetes API servers, and keeps their public keys.
package issuer

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// When keys are fetched.
const (
	lookEvery   = time.Second      // at what the policy says
	fetchEvery  = 5 * time.Minute  // while all is well
	fetchSoon   = 10 * time.Second // after the last time, if a token names a key that is not known
	backoffMin  = time.Second
	backoffMax  = time.Minute
	keysLiveFor = 24 * time.Hour // without a fetch that succeeds
)

// algorithms are those with a public key.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512,
	oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// Keys are the public keys of issuers. Verify uses those that Run has fetched, so that no
// caller waits for an issuer, or makes the registry ask one. It is safe for concurrent use.
type Keys struct {
	log *slog.Logger

	mu   sync.Mutex
	sets map[string]*keySet // by the issuer's URL
}

// keySet is what is known of one issuer.
type keySet struct {
	issuer  access.Issuer
	keys    []jose.JSONWebKey // nil: none yet
	fetched time.Time         // when they were
	err     error             // of the last fetch
	due     time.Time
	failed  int
	busy    bool // a fetch is under way
}

// New returns keys without any.
func New(log *slog.Logger) *Keys { return &Keys{log: log, sets: map[string]*keySet{}} }

// Verify implements access.Verifier.
func (k *Keys) Verify(i access.Issuer, token string, now time.Time) (access.Claims, error) {
	keys, err := k.of(i, now)
	if err != nil {
		return access.Claims{}, err
	}
	candidates, known := matching(keys, token)
	if !known {
		k.wantSoon(i)
		return access.Claims{}, invalid(i, "names a key that the issuer did not have when the registry asked last: try again in a few seconds")
	}
	verifier := oidc.NewVerifier(i.URL, &oidc.StaticKeySet{PublicKeys: candidates}, &oidc.Config{
		SkipClientIDCheck: true, SupportedSigningAlgs: algorithms, Now: func() time.Time { return now },
	})
	verified, err := verifier.Verify(context.Background(), token) // asks nobody
	if expired, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return access.Claims{}, access.NewUnknown(access.ExpiredToken, "the token of the issuer %s has expired at %s: ask the issuer for another", i.Name, expired.Expiry.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return access.Claims{}, invalid(i, "is not valid: %.200s", err)
	}
	if !slices.ContainsFunc(i.Audiences, func(ours string) bool { return slices.Contains(verified.Audience, ours) }) {
		return access.Claims{}, invalid(i, "is for %.200q: ask the issuer for one with the audience %s", verified.Audience, i.Audiences[0])
	}
	claims := access.Claims{Subject: verified.Subject, Expires: verified.Expiry}
	if err := verified.Claims(&claims.All); err != nil {
		return access.Claims{}, invalid(i, "cannot be read: %.200s", err)
	}
	return claims, nil
}

func invalid(i access.Issuer, format string, args ...any) error {
	return access.NewUnknown(access.InvalidJWT, "the token of the issuer "+i.Name+" "+format, args...)
}

// of returns the issuer's keys.
func (k *Keys) of(i access.Issuer, now time.Time) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.sets[i.URL]
	switch {
	case set != nil && set.keys != nil && now.Sub(set.fetched) < keysLiveFor:
		return set.keys, nil
	case set == nil || set.err == nil:
		return nil, script.Errorf(script.Unavailable, "", "the registry is still fetching the keys of the issuer %s: try again", i.Name)
	}
	return nil, script.Errorf(script.Unavailable, "", "the registry cannot fetch the keys of the issuer %s: its log says why", i.Name)
}

// matching returns the keys that may have signed the token; false if it names none of keys.
func matching(keys []jose.JSONWebKey, token string) ([]crypto.PublicKey, bool) {
	signed, err := jose.ParseSignedCompact(token, signatures())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, true // the verifier says what is wrong
	}
	var found []crypto.PublicKey
	id := signed.Signatures[0].Header.KeyID
	for _, key := range keys {
		if id == "" || key.KeyID == "" || key.KeyID == id {
			found = append(found, key.Key)
		}
	}
	return found, len(found) > 0
}

func signatures() []jose.SignatureAlgorithm {
	all := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, name := range algorithms {
		all[i] = jose.SignatureAlgorithm(name)
	}
	return all
}

// wantSoon has the issuer's keys fetched again: it may have a new one.
func (k *Keys) wantSoon(i access.Issuer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if set := k.sets[i.URL]; set != nil && set.failed == 0 {
		if soon := set.fetched.Add(fetchSoon); soon.Before(set.due) {
			set.due = soon
		}
	}
}

// Run fetches the keys of the issuers that issuers returns, and fetches them again now and
// then, until ctx is done.
func (k *Keys) Run(ctx context.Context, issuers func() []access.Issuer) {
	var fetching sync.WaitGroup
	defer fetching.Wait()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		for _, i := range k.due(issuers(), time.Now()) {
			fetching.Go(func() { k.fetch(ctx, i) })
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// due returns the issuers whose keys Keys has to fetch now, and forgets those that are not
// among issuers.
func (k *Keys) due(issuers []access.Issuer, now time.Time) (due []access.Issuer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for url, set := range k.sets {
		if !slices.ContainsFunc(issuers, func(i access.Issuer) bool { return same(i, set.issuer) }) {
			delete(k.sets, url)
		}
	}
	for _, i := range issuers {
		set := k.sets[i.URL]
		if set == nil {
			set = &keySet{issuer: i}
			k.sets[i.URL] = set
		}
		if !set.busy && !now.Before(set.due) {
			set.busy = true
			due = append(due, i)
		}
	}
	return due
}

// same reports whether the keys of both come from the same place.
func same(a, b access.Issuer) bool {
	return a.URL == b.URL && a.KeysURL == b.KeysURL && a.CAFile == b.CAFile && a.TokenFile == b.TokenFile
}

func (k *Keys) fetch(ctx context.Context, i access.Issuer) {
	keys, err := fetch(ctx, i)
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.sets[i.URL]
	if set == nil || !same(set.issuer, i) {
		return // the policy was replaced meanwhile
	}
	set.busy = false
	if err != nil {
		backoff := min(backoffMax, backoffMin<<min(set.failed, 10))
		set.failed++
		set.due = now.Add(backoff)
		if set.err == nil || set.failed%10 == 0 {
			k.log.Warn("the keys of an issuer cannot be fetched", "issuer", i.Name, "error", err, "retry", backoff)
		}
		set.err = err
		return
	}
	if set.keys == nil || set.err != nil {
		k.log.Info("the keys of an issuer were fetched", "issuer", i.Name, "keys", len(keys))
	}
	set.keys, set.fetched, set.err, set.failed = keys, now, nil, 0
	set.due = now.Add(fetchEvery)
}

// usable returns the keys of a set that can verify signatures.
func usable(set *jose.JSONWebKeySet) (keys []jose.JSONWebKey) {
	for _, key := range set.Keys {
		if cmp.Or(key.Use, "sig") != "sig" || !key.Valid() {
			continue
		}
		switch key.Key.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			keys = append(keys, key)
		}
	}
	return keys
}
