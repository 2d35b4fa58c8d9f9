package console

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/pflag"
	"golang.org/x/oauth2"

	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Provider says at which OpenID Connect provider people sign in. The zero Provider is none.
type Provider struct {
	Issuer, ClientID string
	SecretFile       string // of the client; "" for a public one
	Scopes           []string
	CA               string // file of the certificates that vouch for the provider; "" for the system's
	prefix           string // of the flags, for errors
}

// AddFlags defines the flags, with the prefix before each name.
func (p *Provider) AddFlags(flags *pflag.FlagSet, prefix string) {
	p.prefix = prefix
	flags.StringVar(&p.Issuer, prefix+"oidc-issuer", "", "URL of an OpenID Connect provider that people sign in at, such as https://sso.example/realms/main; the registry's access policy must name it, too")
	flags.StringVar(&p.ClientID, prefix+"oidc-client-id", "", "id of the console at that provider; an audience of the issuer in the access policy")
	flags.StringVar(&p.SecretFile, prefix+"oidc-client-secret-file", "", "file of the client's secret; none for a public client")
	flags.StringSliceVar(&p.Scopes, prefix+"oidc-scopes", []string{"profile", "email"}, "scopes besides openid; some providers give a refresh token for offline_access only")
	flags.StringVar(&p.CA, prefix+"oidc-ca", "", "file of the CA certificates that vouch for the provider; the system's when empty")
}

// validate returns an error unless the provider can be used by a console at the URL.
func (p *Provider) validate(at string) error {
	if p.Issuer == "" {
		if p.ClientID != "" || p.SecretFile != "" || p.CA != "" {
			return script.Errorf(script.Invalid, "--"+p.prefix+"oidc-issuer", "is missing: the other flags of OpenID Connect have no use without it")
		}
		return nil
	}
	u, err := url.Parse(p.Issuer)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return script.Errorf(script.Invalid, "--"+p.prefix+"oidc-issuer", "%.200q is no address with https://", p.Issuer)
	case p.ClientID == "":
		return script.Errorf(script.Invalid, "--"+p.prefix+"oidc-client-id", "is missing: register the console at the provider, with the redirect URI https://CONSOLE%s, and give its id", callbackPath)
	case at == "":
		return script.Errorf(script.Invalid, "--"+p.prefix+"url", "is missing: the provider sends browsers back to it, such as https://console.example")
	}
	return nil
}

// Times at the provider.
const (
	providerTimeout = 10 * time.Second
	lookAgain       = 5 * time.Second // after the provider could not be reached
	renewBefore     = time.Minute     // a token ends
)

// provider knows the provider once it has answered. It is safe for concurrent use.
type provider struct {
	Provider

	redirect string
	secret   func() (string, error)
	http     *http.Client
	clock    func() time.Time

	mu     sync.Mutex
	known  *endpoints
	failed time.Time
	err    error
}

// endpoints are what the provider says of itself.
type endpoints struct {
	oauth2.Endpoint

	verifier *oidc.IDTokenVerifier
	revoke   string // where tokens are revoked; "" for nowhere
}

// newProvider returns nil for the zero Provider.
func newProvider(cfg Config) (*provider, error) {
	p := cfg.Provider
	if err := p.validate(cfg.URL); err != nil || p.Issuer == "" {
		return nil, err
	}
	made := &provider{Provider: p, redirect: strings.TrimSuffix(cfg.URL, "/") + callbackPath, clock: cfg.Clock, secret: func() (string, error) { return "", nil }}
	if p.SecretFile != "" {
		var err error
		if made.secret, err = tlsfiles.Secret(p.SecretFile, cfg.Modes, cfg.Log); err != nil {
			return nil, script.Errorf(script.Invalid, "--"+p.prefix+"oidc-client-secret-file", "%w", err)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if p.CA != "" {
		pem, err := os.ReadFile(p.CA)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(pem) {
			return nil, script.Errorf(script.Invalid, "--"+p.prefix+"oidc-ca", "%s holds no certificate in PEM that can be read", p.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	made.http = &http.Client{Transport: transport, Timeout: providerTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("the provider redirects, which is not followed: give its own address")
	}}
	return made, nil
}

// context returns one that requests of the libraries go through.
func (p *provider) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.http)
}

// endpoints asks the provider, unless it has answered before, or has failed to a moment ago.
func (p *provider) endpoints(ctx context.Context) (*endpoints, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != nil {
		return p.known, nil
	}
	if p.err == nil || p.clock().Sub(p.failed) >= lookAgain {
		p.known, p.err = p.discover(ctx)
		p.failed = p.clock() // after it: a slow provider takes longer than lookAgain
	}
	return p.known, p.err
}

func (p *provider) discover(ctx context.Context) (*endpoints, error) {
	// The keys of the provider are fetched again with this context, later.
	found, err := oidc.NewProvider(p.context(context.WithoutCancel(ctx)), p.Issuer)
	if err != nil {
		return nil, script.Errorf(script.Unavailable, "", "the console cannot use the sign-in provider %s: %.300s", p.Issuer, err)
	}
	var more struct {
		Revocation string `json:"revocation_endpoint"`
	}
	_ = found.Claims(&more) // it was JSON a moment ago
	e := &endpoints{Endpoint: found.Endpoint(), revoke: more.Revocation}
	for _, at := range []string{e.AuthURL, e.TokenURL} {
		if !strings.HasPrefix(at, "https://") {
			return nil, script.Errorf(script.Unavailable, "", "the sign-in provider %s names the address %.200q: want https://", p.Issuer, at)
		}
	}
	e.verifier = found.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.clock})
	return e, nil
}

// client returns the console as a client of the provider.
func (p *provider) client(e *endpoints) (*oauth2.Config, error) {
	secret, err := p.secret()
	if err != nil {
		return nil, script.Errorf(script.Unavailable, "", "the console cannot read its secret for the sign-in provider: %w", err)
	}
	scopes := append([]string{oidc.ScopeOpenID}, p.Scopes...)
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: secret, Endpoint: e.Endpoint, RedirectURL: p.redirect, Scopes: scopes}, nil
}

// revoke tells the provider that a refresh token is not needed any more. If that fails, the token ends by itself.
func (p *provider) revoke(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	e, err := p.endpoints(ctx)
	if err != nil || !strings.HasPrefix(e.revoke, "https://") {
		return
	}
	client, err := p.client(e)
	if err != nil {
		return
	}
	form := url.Values{"token": {token}, "token_type_hint": {"refresh_token"}}
	if client.ClientSecret == "" {
		form.Set("client_id", client.ClientID)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if client.ClientSecret != "" {
		r.SetBasicAuth(url.QueryEscape(client.ClientID), url.QueryEscape(client.ClientSecret))
	}
	if resp, err := p.http.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}
