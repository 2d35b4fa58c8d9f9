package rpc_test

import (
	"crypto/tls"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/h2test"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
)

// besieged is a registry that knows one caller, by a token.
type besieged struct {
	*guarded
	stranger *tls.Config
	known    *grpc.ClientConn
}

func serveBesieged(t *testing.T, options ...func(*rpc.Config)) besieged {
	t.Helper()
	ca := certtest.NewCA(t)
	own := ca.Issue("registry", certtest.Leaf{})
	g := serveGuarded(t, "tcp", rpc.Authentication{
		TLS:    material(t, tlsfiles.Files{CA: ca.File, Cert: own.Cert, Key: own.Key}),
		Policy: policy(t, readers("tokens: ["+digestOf(goodToken)+"]")),
	}, options...)
	stranger, err := tlsfiles.Load(tlsfiles.Files{CA: ca.File}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	config, err := stranger.Client()
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName, config.NextProtos = "localhost", []string{"h2"}
	b := besieged{guarded: g, stranger: config, known: g.dial(t, stranger.Credentials(), withToken(goodToken))}
	b.serves(t)
	return b
}

func (b besieged) serves(t *testing.T) {
	t.Helper()
	for range 20 {
		if err := asks(t, b.known); err != nil {
			t.Fatalf("a known caller: %v", err)
		}
	}
}

func (b besieged) attack(t *testing.T) *h2test.Client {
	t.Helper()
	conn, err := tls.Dial("tcp", b.address, b.stranger)
	if err != nil {
		t.Fatal(err)
	}
	return h2test.New(t, conn)
}

// TestBodiesOfStrangers: a caller who is not known is refused before the request arrives, and
// health checks have small bounds: neither fills the memory of the registry.
func TestBodiesOfStrangers(t *testing.T) {
	needs.NoRace(t)
	const most = 96 << 20
	for _, method := range []string{registryv1.Registry_Publish_FullMethodName, registryv1.Feed_Pull_FullMethodName, healthv1.Health_Check_FullMethodName} {
		t.Run(strings.Split(method, "/")[2], func(t *testing.T) {
			b := serveBesieged(t, func(cfg *rpc.Config) { cfg.RequestTimeout = 3 * time.Second })
			before := memtest.InUse()
			var all []*h2test.Client
			for range 2 {
				c := b.attack(t)
				all = append(all, c)
				c.Fill(method, 500, 1<<20)
			}
			held := memtest.InUse() - before
			t.Logf("strangers hold %d bytes", held)
			if held > most {
				t.Errorf("strangers hold %d bytes, want at most %d", held, most)
			}
			b.serves(t)
			for _, c := range all {
				c.AwaitClosed(t) // no known caller came
			}
			b.serves(t)
		})
	}
}

// TestStrangersAreAnswered: who is refused learns why, although the request is not complete.
func TestStrangersAreAnswered(t *testing.T) {
	b := serveBesieged(t)
	c := b.attack(t)
	denied := strconv.Itoa(int(codes.PermissionDenied))
	for range 50 {
		id := c.Call(registryv1.Registry_Publish_FullMethodName)
		c.Push(id, h2test.Prefix(1<<20))
		if got := c.Status(t, id); got != denied {
			t.Fatalf("status %q, want %s", got, denied)
		}
	}
}
