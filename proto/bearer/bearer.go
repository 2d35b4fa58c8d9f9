// Package bearer carries tokens in the metadata of gRPC calls, as in HTTP:
// "authorization: Bearer TOKEN".
package bearer

import (
	"context"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	key    = "authorization"
	scheme = "Bearer"
)

// Credentials show a token with every call of a client. token is asked for it at
// each: it may change. The token goes over connections that are encrypted, or stay on
// this machine, and over others only if plaintext.
func Credentials(token func() (string, error), plaintext bool) credentials.PerRPCCredentials {
	return perCall{token: token, plaintext: plaintext}
}

type perCall struct {
	token     func() (string, error)
	plaintext bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (c perCall) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	return map[string]string{key: scheme + " " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (c perCall) RequireTransportSecurity() bool { return !c.plaintext }

// FromContext returns the token of the call that a server answers; "" if it has
// none. Metadata that does not hold one token is Invalid.
func FromContext(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, key)
	if len(values) == 0 {
		return "", nil
	}
	of, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || !strings.EqualFold(of, scheme) || token == "" {
		return "", script.Errorf(script.Invalid, key, "want one, as in %s: %s TOKEN", key, scheme)
	}
	return token, nil
}
