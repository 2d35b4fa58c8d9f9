package console

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/script"
)

// tokens holds the tokens of one session at a provider. They are the credentials of its calls: the id token, which the
// refresh token renews before it expires. They are safe for concurrent use.
type tokens struct {
	provider  *provider
	plaintext bool

	mu      sync.Mutex
	id      string
	subject string
	ends    time.Time
	refresh string // "" for none
	again   time.Time
	dead    bool // the provider does not renew them
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t *tokens) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := t.current(ctx)
	if err != nil {
		code := codes.Unavailable
		if errors.Is(err, errNoSession) {
			code = codes.Unauthenticated
		}
		return nil, status.Error(code, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (t *tokens) RequireTransportSecurity() bool { return !t.plaintext }

// current returns the id token. Calls that come while it is renewed wait for that.
func (t *tokens) current(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.provider.clock()
	switch left := t.ends.Sub(now); {
	case t.dead, left <= 0 && t.refresh == "":
		return "", errNoSession
	case left > renewBefore, t.refresh == "":
		return t.id, nil
	}
	if !now.Before(t.again) {
		err := t.renew(ctx)
		now = t.provider.clock()
		t.dead = t.dead || isRefusal(err)
		t.again = now.Add(lookAgain)
	}
	switch {
	case t.dead:
		return "", errNoSession
	case t.ends.After(now):
		return t.id, nil
	}
	return "", script.Errorf(script.Unavailable, "", "the sign-in provider does not renew the session: try again, or sign out and in")
}

// isRefusal reports whether the provider refuses to give tokens. A provider that is busy or broken refuses nothing.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return false
	}
	status := refused.Response.StatusCode
	return status < http.StatusInternalServerError && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// renew asks the provider for other tokens of the same person; mu is held. It goes on if the call goes away that began it:
// many providers take a refresh token once, so the answer must not be lost.
func (t *tokens) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(t.provider.context(context.WithoutCancel(ctx)), providerTimeout)
	defer cancel()
	e, err := t.provider.endpoints(ctx)
	if err != nil {
		return err
	}
	client, err := t.provider.client(e)
	if err != nil {
		return err
	}
	answer, err := client.TokenSource(ctx, &oauth2.Token{RefreshToken: t.refresh}).Token()
	if err != nil {
		return err
	}
	t.refresh = cmp.Or(answer.RefreshToken, t.refresh) // also if the id token is not good
	verified, raw, err := e.verified(ctx, answer)
	if err != nil {
		return err
	}
	if verified.Subject != t.subject {
		t.dead = true
		return errNoSession
	}
	t.take(raw, verified)
	return nil
}

// begin keeps the id token of the answer to a sign-in.
func (t *tokens) begin(ctx context.Context, e *endpoints, answer *oauth2.Token, l login) error {
	verified, raw, err := e.verified(ctx, answer)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(l.Nonce)) != 1 {
		return script.Errorf(script.Denied, "", "the id token is of another sign-in: sign in again")
	}
	t.take(raw, verified)
	return nil
}

// take keeps the id token of an answer.
func (t *tokens) take(raw string, verified *oidc.IDToken) {
	t.id, t.subject, t.ends = raw, verified.Subject, verified.Expiry
}

// revoke ends the refresh token at the provider.
func (t *tokens) revoke() {
	t.mu.Lock()
	refresh := t.refresh
	t.dead = true
	t.mu.Unlock()
	if refresh != "" {
		t.provider.revoke(context.Background(), refresh)
	}
}

// verified returns the id token of the provider's answer.
func (e *endpoints) verified(ctx context.Context, answer *oauth2.Token) (*oidc.IDToken, string, error) {
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return nil, "", script.Errorf(script.Unavailable, "", "the sign-in provider gave no id token: it must be a provider of OpenID Connect")
	}
	verified, err := e.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, "", script.Errorf(script.Denied, "", "the id token of the sign-in provider is not valid: %.300s", err)
	}
	return verified, raw, nil
}
