package rpc_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/bearer"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/fleet"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/registry/timeline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// guarded is a served registry that asks who asks.
type guarded struct {
	address string
	log     *obstest.Output
	first   chan access.Reason // why the first was refused

	mu      sync.Mutex
	refused []access.Reason
}

func (g *guarded) reasons() []access.Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]access.Reason(nil), g.refused...)
}

// serveGuarded serves on "unix", or on TCP.
func serveGuarded(t *testing.T, network string, auth rpc.Authentication, options ...func(*rpc.Config)) *guarded {
	t.Helper()
	g := &guarded{log: &obstest.Output{}, first: make(chan access.Reason, 1)}
	auth.Refused = func(reason access.Reason) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.refused = append(g.refused, reason); len(g.refused) == 1 {
			g.first <- reason
		}
	}
	log, store, sealer := slog.New(slog.NewTextHandler(g.log, nil)), memstore.New(), seal.NewSealer(signingKey)
	m, fl, hub := mirror.New(sealer, log), fleet.New(fleet.Config{Settle: 1}), timeline.NewHub(store, log)
	cfg := rpc.Config{
		Registry: registry.New(registry.Config{Store: store, Checkup: store, Engines: map[string]engine.Checker{"lua": checker{}}}),
		Fleet:    fl, Logs: talkative{}, Usage: used{hours: 2}, Asker: oracle{}, Timeline: timeline.New(store, hub), Mirror: m, Groups: &groups{}, Sealer: sealer, Log: log, Authentication: auth,
	}
	for _, option := range options {
		option(&cfg)
	}
	server := rpc.New(cfg)
	go registry.Follow(t.Context(), store, log, m, fl, hub)
	go hub.Run(t.Context())
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "rpc")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		address = filepath.Join(dir, "registry.sock")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	g.address = ln.Addr().String()
	if network == "unix" {
		g.address = "unix:" + g.address
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		server.Drain(now)
		<-served
	})
	return g
}

func (g *guarded) dial(t *testing.T, transport credentials.TransportCredentials, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(g.address, append(options, grpc.WithTransportCredentials(transport))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// asks makes one call of each kind and returns who the registry took the caller for:
// the error of either, which are of one kind.
func asks(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	client := registryv1.NewRegistryClient(conn)
	_, err := client.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "none"})
	watch, streamErr := client.WatchStatus(t.Context(), &registryv1.WatchStatusRequest{Tenant: "acme"})
	if streamErr == nil {
		_, streamErr = watch.Recv()
	}
	err, streamErr = wire.FromStatus(err), wire.FromStatus(streamErr)
	if script.KindOf(err) == script.NotFound {
		err = nil
	}
	if fmt.Sprint(err) != fmt.Sprint(streamErr) {
		t.Errorf("a call: %v; a stream: %v", err, streamErr)
	}
	return err
}

func withToken(token string) grpc.DialOption {
	return grpc.WithPerRPCCredentials(bearer.Credentials(func() (string, error) { return token, nil }, true))
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

const goodToken = "a token that nobody guesses"

func policy(t *testing.T, text string) func() *access.Policy {
	t.Helper()
	p, err := access.Parse("policy.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() *access.Policy { return p }
}

func readers(fields string) string {
	return "subjects: [{name: reader, " + fields + ", grants: [{roles: [read], tenants: [acme]}]}]"
}

func material(t *testing.T, files tlsfiles.Files) credentials.TransportCredentials {
	t.Helper()
	m, err := tlsfiles.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m.Credentials()
}

func TestWhoIsKnown(t *testing.T) {
	ca := certtest.NewCA(t)
	server, known, other := ca.Issue("server", certtest.Leaf{}), ca.Issue("known", certtest.Leaf{URI: "spiffe://test/agent"}), ca.Issue("other", certtest.Leaf{CommonName: "other"})
	secure := material(t, tlsfiles.Files{CA: ca.File, Cert: server.Cert, Key: server.Key})
	nobody := material(t, tlsfiles.Files{CA: ca.File})
	uid := os.Getuid()
	for _, tt := range []struct {
		name    string
		network string
		auth    rpc.Authentication
		dial    credentials.TransportCredentials
		options []grpc.DialOption
		want    access.Reason // "" for a caller that is known
	}{
		{"socket without a policy", "unix", rpc.Authentication{}, local.NewCredentials(), nil, ""},
		{"socket by uid", "unix", rpc.Authentication{Policy: policy(t, readers(fmt.Sprintf("uids: [%d]", uid)))}, local.NewCredentials(), nil, ""},
		{"socket by another uid", "unix", rpc.Authentication{Policy: policy(t, readers(fmt.Sprintf("uids: [%d]", uid+1)))}, local.NewCredentials(), nil, access.UnknownUser},
		{"socket by token", "unix", rpc.Authentication{Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))}, local.NewCredentials(), []grpc.DialOption{withToken(goodToken)}, ""},
		{"socket by token, anonymous over TCP", "unix", rpc.Authentication{InsecureAnonymous: true}, local.NewCredentials(), []grpc.DialOption{withToken("no matter which")}, ""},
		{"network without a policy", "tcp", rpc.Authentication{}, insecure.NewCredentials(), nil, access.NothingShown},
		{"network without a policy, with TLS", "tcp", rpc.Authentication{TLS: secure}, material(t, tlsfiles.Files{CA: ca.File, Cert: known.Cert, Key: known.Key}), nil, access.NothingShown},
		{"anonymous", "tcp", rpc.Authentication{InsecureAnonymous: true}, insecure.NewCredentials(), nil, ""},
		{"anonymous makes no difference to a policy", "tcp", rpc.Authentication{InsecureAnonymous: true, Policy: policy(t, readers("uids: [1]"))}, insecure.NewCredentials(), nil, access.NothingShown},
		{"certificate", "tcp", rpc.Authentication{TLS: secure, Policy: policy(t, readers("certificates: [{uri: spiffe://test/agent}]"))}, material(t, tlsfiles.Files{CA: ca.File, Cert: known.Cert, Key: known.Key}), nil, ""},
		{"certificate of another", "tcp", rpc.Authentication{TLS: secure, Policy: policy(t, readers("certificates: [{uri: spiffe://test/agent}]"))}, material(t, tlsfiles.Files{CA: ca.File, Cert: other.Cert, Key: other.Key}), nil, access.UnknownCertificate},
		{"token over TLS", "tcp", rpc.Authentication{TLS: secure, Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))}, nobody, []grpc.DialOption{withToken(goodToken)}, ""},
		{"unknown token", "tcp", rpc.Authentication{TLS: secure, Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))}, nobody, []grpc.DialOption{withToken(goodToken + "!")}, access.UnknownToken},
		{"nothing", "tcp", rpc.Authentication{TLS: secure, Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))}, nobody, nil, access.NothingShown},
		{"uid over the network", "tcp", rpc.Authentication{TLS: secure, Policy: policy(t, readers(fmt.Sprintf("uids: [0, %d]", uid)))}, nobody, nil, access.NothingShown},
		{"token in plain text", "tcp", rpc.Authentication{Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))}, insecure.NewCredentials(), []grpc.DialOption{withToken(goodToken)}, access.PlaintextToken},
		{"token in plain text, as asked for", "tcp", rpc.Authentication{InsecureTokens: true, Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))}, insecure.NewCredentials(), []grpc.DialOption{withToken(goodToken)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := serveGuarded(t, tt.network, tt.auth)
			err := asks(t, g.dial(t, tt.dial, tt.options...))
			if tt.want == "" {
				if err != nil || len(g.reasons()) > 0 {
					t.Errorf("%v, %v", err, g.reasons())
				}
				return
			}
			reasons := g.reasons()
			if script.KindOf(err) != script.Denied || len(reasons) != 2 || reasons[0] != tt.want || reasons[1] != tt.want {
				t.Errorf("%v, %v, want %s", err, reasons, tt.want)
			}
			if n := strings.Count(g.log.String(), "was refused"); n != 1 {
				t.Errorf("%d obstest.Output in the log, want one a minute:\n%s", n, g.log)
			}
			if strings.Contains(g.log.String(), goodToken) || strings.Contains(fmt.Sprint(err), goodToken) {
				t.Errorf("the error or the log contains the token: %v\n%s", err, g.log)
			}
		})
	}
}

func TestStrangersGetNoConnection(t *testing.T) {
	ca, stranger := certtest.NewCA(t), certtest.NewCA(t)
	server, bad := ca.Issue("server", certtest.Leaf{}), stranger.Issue("agent", certtest.Leaf{CommonName: "agent"})
	g := serveGuarded(t, "tcp", rpc.Authentication{
		TLS:    material(t, tlsfiles.Files{CA: ca.File, Cert: server.Cert, Key: server.Key}),
		Policy: policy(t, readers("certificates: [{commonName: agent}]")),
	})
	for name, transport := range map[string]credentials.TransportCredentials{
		"a certificate of another CA": material(t, tlsfiles.Files{CA: ca.File, Cert: bad.Cert, Key: bad.Key}),
		"plain text":                  insecure.NewCredentials(),
	} {
		if err := asks(t, g.dial(t, transport)); script.KindOf(err) != script.Unavailable {
			t.Errorf("%s: %v, want no connection", name, err)
		}
	}
	if reason := <-g.first; reason != access.FailedHandshake { // the client may know of it before
		t.Errorf("%v, want failed handshakes", reason)
	}
}

func TestMetadataThatIsNoToken(t *testing.T) {
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))})
	client := registryv1.NewRegistryClient(g.dial(t, insecure.NewCredentials()))
	good := "Bearer " + goodToken
	for _, values := range [][]string{{"Basic " + goodToken}, {goodToken}, {"Bearer"}, {"Bearer  "}, {""}, {good, good}, {good, "Bearer x"}} {
		ctx := t.Context()
		for _, value := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", value)
		}
		if _, err := client.Get(ctx, &registryv1.GetRequest{Tenant: "acme", Name: "x"}); script.KindOf(wire.FromStatus(err)) != script.Denied {
			t.Errorf("%q: %v", values, err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "bearer "+goodToken)
	if _, err := client.Get(ctx, &registryv1.GetRequest{Tenant: "acme", Name: "x"}); script.KindOf(wire.FromStatus(err)) != script.NotFound {
		t.Errorf("a token in small letters' scheme: %v", err)
	}
}

// TestHealthIsForEverybody, and reflection for those who are known.
func TestHealthIsForEverybody(t *testing.T) {
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))})
	conn := g.dial(t, insecure.NewCredentials())
	if resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", resp, err)
	}
	// To watch it costs the registry something, for as long as the caller likes.
	watch, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if script.KindOf(wire.FromStatus(err)) != script.Denied {
		t.Errorf("a watch of a stranger: %v", err)
	}
	reflect := func(conn *grpc.ClientConn) error {
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			return err
		}
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}) // Recv has the reason
		_, err = stream.Recv()
		return err
	}
	if err := reflect(conn); script.KindOf(wire.FromStatus(err)) != script.Denied {
		t.Errorf("reflection for a stranger: %v", err)
	}
	if err := reflect(g.dial(t, insecure.NewCredentials(), withToken(goodToken))); err != nil {
		t.Errorf("reflection: %v", err)
	}
}

// TestThePolicyOfTheMoment decides, on connections and streams that were there before
// too.
func TestThePolicyOfTheMoment(t *testing.T) {
	var now atomic.Pointer[access.Policy]
	now.Store(policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))())
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: now.Load})
	conn := g.dial(t, insecure.NewCredentials(), withToken(goodToken))
	if err := asks(t, conn); err != nil {
		t.Fatal(err)
	}
	watch, err := registryv1.NewRegistryClient(conn).WatchStatus(t.Context(), &registryv1.WatchStatusRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	const writer = "the token of another, a writer"
	now.Store(policy(t, "subjects: [{name: writer, tokens: ["+digestOf(writer)+"], grants: [{roles: [publish], tenants: [acme]}]}]")())
	if err := asks(t, conn); script.KindOf(err) != script.Denied {
		t.Errorf("after the token was taken away: %v", err)
	}
	client := registryv1.NewRegistryClient(g.dial(t, insecure.NewCredentials(), withToken(writer)))
	if _, err := client.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Name: "new", Source: []byte("x"), Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	if resp, err := watch.Recv(); script.KindOf(wire.FromStatus(err)) != script.Unavailable {
		t.Errorf("a watch of before goes on: %v, %v", resp, err)
	}
}

// TestAnImportEndsWithItsRights: what a caller may not do any more it does not do on a
// stream that it began before.
func TestAnImportEndsWithItsRights(t *testing.T) {
	var now atomic.Pointer[access.Policy]
	rights := "subjects: [{name: importer, tokens: [" + digestOf(goodToken) + "], grants: [{roles: [admin], tenants: ['*']}]}]"
	now.Store(policy(t, rights)())
	looked := make(chan struct{}, 1000)
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: func() *access.Policy {
		looked <- struct{}{}
		return now.Load()
	}})
	conn := g.dial(t, insecure.NewCredentials(), withToken(goodToken))
	s, client := prepare(t, conn), registryv1.NewRegistryClient(conn)
	if _, err := client.Delete(t.Context(), &registryv1.DeleteRequest{Tenant: "acme", Name: "pinned", Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	for len(looked) > 0 {
		<-looked
	}
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, registryv1.Registry_Import_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	options := &registryv1.ImportRequest{Item: &registryv1.ImportRequest_Options{Options: &registryv1.ImportOptions{Author: "ann", Overwrite: true}}}
	if err := stream.SendMsg(options); err != nil {
		t.Fatal(err)
	}
	<-looked // when it began,
	<-looked // and to know who asks
	now.Store(policy(t, readers("tokens: ["+digestOf(goodToken)+"]"))())
	for _, m := range s.exported {
		_ = stream.SendMsg(m) // RecvMsg has the reason
	}
	_ = stream.CloseSend() // as above
	if err := stream.RecvMsg(&registryv1.ImportResponse{}); script.KindOf(wire.FromStatus(err)) != script.Unavailable {
		t.Errorf("%v, want that the rights have changed", err)
	}
	if got, err := client.Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "pinned"}); script.KindOf(wire.FromStatus(err)) != script.NotFound {
		t.Errorf("it was imported: %v, %v", got, err)
	}
}

// TestACertificateThatExpires is not good on the connection that it made.
func TestACertificateThatExpires(t *testing.T) {
	ca := certtest.NewCA(t)
	server := ca.Issue("server", certtest.Leaf{})
	g := serveGuarded(t, "tcp", rpc.Authentication{
		TLS:    material(t, tlsfiles.Files{CA: ca.File, Cert: server.Cert, Key: server.Key}),
		Policy: policy(t, readers("certificates: [{commonName: brief}]")),
	})
	var conn *grpc.ClientConn
	get := func() error {
		_, err := registryv1.NewRegistryClient(conn).Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "none"})
		if err = wire.FromStatus(err); script.KindOf(err) == script.NotFound {
			return nil
		}
		return err
	}
	var end time.Time
	for life, known := 3*time.Second, false; !known; life *= 2 { // a busy machine may not get so far in its time
		end = time.Now().Add(life).Truncate(time.Second)
		brief := ca.Issue("brief", certtest.Leaf{CommonName: "brief", NotAfter: end})
		conn = g.dial(t, material(t, tlsfiles.Files{CA: ca.File, Cert: brief.Cert, Key: brief.Key}))
		err := get()
		if known = err == nil; !known && time.Now().Before(end) {
			t.Fatal(err)
		}
	}
	ask := time.NewTicker(100 * time.Millisecond)
	defer ask.Stop()
	for get() == nil {
		<-ask.C
	}
	err := asks(t, conn)
	if time.Now().Before(end) {
		t.Errorf("%v, before its end", err)
	}
	if script.KindOf(err) != script.Denied || !strings.Contains(err.Error(), "expired") {
		t.Errorf("%v, want that it has expired", err)
	}
}
