package registryclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// echo answers every request with an error that names the token.
func echo(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		token, err := bearer.FromContext(ctx)
		if err != nil {
			return nil, wire.ToStatus(err)
		}
		return nil, wire.ToStatus(script.Errorf(script.NotFound, "", "token %q", token))
	}))...)
	registryv1.RegisterRegistryServer(server, registryv1.UnimplementedRegistryServer{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	return ln.Addr().String()
}

func TestTLSAndToken(t *testing.T) {
	ca := certtest.NewCA(t)
	own := ca.Issue("registry", certtest.Leaf{})
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if text, err := os.ReadFile(ca.File); err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	secure := echo(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	plain := echo(t)
	token := func() (string, error) { return "mine", nil }
	for _, tt := range []struct {
		name    string
		address string
		options []registryclient.Option
		want    string // in the error of a call, or of Dial
	}{
		{"TLS and a token", secure, []registryclient.Option{registryclient.WithTLS(&tls.Config{RootCAs: pool}), registryclient.WithToken(token)}, `token "mine"`},
		{"TLS alone", secure, []registryclient.Option{registryclient.WithTLS(&tls.Config{RootCAs: pool})}, `token ""`},
		{"TLS 1.2", secure, []registryclient.Option{registryclient.WithTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})}, `token ""`},
		{"a CA that is not known", secure, []registryclient.Option{registryclient.WithTLS(&tls.Config{RootCAs: x509.NewCertPool()})}, "name that CA's file"},
		{"no TLS there", plain, []registryclient.Option{registryclient.WithTLS(&tls.Config{RootCAs: pool})}, "it does not speak TLS"},
		{"no TLS here", secure, nil, "cannot reach the registry"},
		{"a token in plain text", plain, []registryclient.Option{registryclient.WithToken(token)}, "cannot be dialled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client, err := registryclient.Dial(tt.address, tt.options...)
			if err == nil {
				defer client.Close()
				_, err = client.Get(t.Context(), script.Name{Tenant: "acme", Script: "route"})
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}
