package issuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/scriptorium-dev/scriptorium/registry/access"
)

// Bounds of what an issuer answers.
const (
	fetchTimeout = 10 * time.Second
	maxBytes     = 1 << 20
	maxKeys      = 100
)

// fetch returns the issuer's keys that can verify signatures.
func fetch(ctx context.Context, i access.Issuer) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client, err := newClient(i)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	from, tokenFile := i.KeysURL, i.TokenFile
	if from == "" {
		var document struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		at := strings.TrimSuffix(i.URL, "/") + "/.well-known/openid-configuration"
		if err := get(ctx, client, at, i.TokenFile, &document); err != nil {
			return nil, err
		}
		if document.Issuer != i.URL {
			return nil, fmt.Errorf("%s is of the issuer %.200q, and the policy says %s", at, document.Issuer, i.URL)
		}
		from = document.KeysURL
		if !strings.HasPrefix(from, "https://") {
			return nil, fmt.Errorf("the issuer has its keys at %.200q: want https://", from)
		}
		if !sameHost(from, i.URL) {
			tokenFile = "" // the token is for the issuer
		}
	}
	var set jose.JSONWebKeySet
	if err := get(ctx, client, from, tokenFile, &set); err != nil {
		return nil, err
	}
	keys := usable(&set)
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%s has %d keys that can verify signatures: want 1 to %d", from, len(keys), maxKeys)
	}
	return keys, nil
}

func sameHost(a, b string) bool {
	first, err := url.Parse(a)
	if err != nil {
		return false
	}
	second, err := url.Parse(b)
	return err == nil && first.Host == second.Host
}

// newClient returns a client that trusts what the issuer's entry says. It is made for each
// fetch, because its files may have changed.
func newClient(i access.Issuer) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if i.CAFile != "" {
		pem, err := os.ReadFile(i.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate", i.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("an issuer that redirects is not followed: name the address of its keys as keysURL")
	}}, nil
}

// get decodes the JSON at the address. It shows the token in the file, if there is one.
func get(ctx context.Context, client *http.Client, from, tokenFile string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", from, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err != nil {
		return err
	}
	if len(body) > maxBytes {
		return fmt.Errorf("%s answers with more than %d bytes", from, maxBytes)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}
