package console

import (
	"context"
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
	case left > renewBefore, t.refresh == "", left > 0 && now.Before(t.again):
		return t.id, nil
	}
	err := t.renew(ctx)
	if err == nil {
		return t.id, nil
	}
	t.again = now.Add(lookAgain)
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < http.StatusInternalServerError {
		t.dead = true
		return "", errNoSession
	}
	if t.ends.After(now) {
		return t.id, nil
	}
	return "", script.Errorf(script.Unavailable, "", "the sign-in provider does not answer: try again")
}

// renew asks the provider for other tokens of the same person; mu is held.
func (t *tokens) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(t.provider.context(ctx), providerTimeout)
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
	verified, raw, err := e.verified(ctx, answer)
	if err != nil {
		return err
	}
	if verified.Subject != t.subject {
		t.dead = true
		return errNoSession
	}
	t.take(raw, verified, answer.RefreshToken)
	return nil
}

// take keeps the tokens of an answer.
func (t *tokens) take(raw string, verified *oidc.IDToken, refresh string) {
	t.id, t.subject, t.ends, t.again = raw, verified.Subject, verified.Expiry, time.Time{}
	if refresh != "" {
		t.refresh = refresh
	}
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
