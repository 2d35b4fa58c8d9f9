package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

// serveTLS serves a registry that knows nobody, and returns the credentials of a client
// without a certificate.
func serveTLS(t *testing.T) (*guarded, *tlsfiles.Material) {
	t.Helper()
	ca := certtest.NewCA(t)
	own := ca.Issue("registry", certtest.Leaf{})
	g := serveGuarded(t, "tcp", rpc.Authentication{
		TLS:    material(t, tlsfiles.Files{CA: ca.File, Cert: own.Cert, Key: own.Key}),
		Policy: policy(t, readers("certificates: [{uri: spiffe://test/agent}]")),
	})
	stranger, err := tlsfiles.Load(tlsfiles.Files{CA: ca.File}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return g, stranger
}

// TestHeadersOfStrangers: open calls with many compressed headers, by clients that show no
// certificate, do not fill the memory of the registry.
func TestHeadersOfStrangers(t *testing.T) {
	needs.NoRace(t)
	const mostBytes = 96 << 20 // of all calls, and of the buffers of their connections
	for _, tt := range []struct {
		name               string
		method             string
		connections, calls int
		fields             int // of each call, a byte each; HTTP/2 counts 46 bytes
	}{
		{"just under 16 MiB each", registryv1.Registry_Get_FullMethodName, 16, 1, 350_000},
		{"just within the bound", registryv1.Registry_Get_FullMethodName, 20, 1000, 340},
		{"health checks just within the bound", healthv1.Health_Check_FullMethodName, 20, 1000, 340},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, stranger := serveTLS(t)
			headers := startOfCall(t, tt.method)
			for range tt.fields {
				headers = append(headers, 0x8f) // the field 15 of the static table: accept-charset
			}
			before := memtest.InUse()
			for range tt.connections {
				openCalls(t, g.address, stranger, headers, tt.calls)
			}
			held := memtest.InUse() - before
			t.Logf("%d calls hold %d bytes", tt.connections*tt.calls, held)
			if held > mostBytes {
				t.Errorf("%d calls of strangers hold %d bytes, want at most %d", tt.connections*tt.calls, held, mostBytes)
			}
			_, err := registryv1.NewRegistryClient(g.dial(t, stranger.Credentials())).Get(t.Context(), &registryv1.GetRequest{Tenant: "acme", Name: "none"})
			if err := wire.FromStatus(err); script.KindOf(err) != script.Denied {
				t.Errorf("another stranger: %v, want an answer", err)
			}
		})
	}
}

// startOfCall returns the compressed headers that every call begins with.
func startOfCall(t *testing.T, method string) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	enc.SetMaxDynamicTableSize(0) // so that every call can begin with the same bytes
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "https"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		if err := enc.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// openCalls opens calls with the compressed headers on a connection of their own, and sends no
// request. It returns once the server has read the headers, or has closed the connection.
func openCalls(t *testing.T, address string, stranger *tlsfiles.Material, headers []byte, calls int) {
	t.Helper()
	config, err := stranger.Client()
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName, config.NextProtos = "localhost", []string{"h2"}
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	framer := http2.NewFramer(conn, conn)
	ping := [8]byte{1}
	sent := make(chan error, 1)
	go func() { sent <- sendHeaders(conn, framer, headers, calls, ping) }()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			break // the server has closed the connection
		}
		if pong, ok := frame.(*http2.PingFrame); ok && pong.IsAck() && pong.Data == ping {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("the server neither read the headers nor closed the connection")
	}
	<-sent
}

// sendHeaders fails if the server closes the connection.
func sendHeaders(conn net.Conn, framer *http2.Framer, headers []byte, calls int, ping [8]byte) error {
	const most = 16 << 10 // bytes of a frame
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	for i := range calls {
		id := uint32(2*i + 1)
		first := headers[:min(most, len(headers))]
		rest := headers[len(first):]
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(rest) == 0})
		for err == nil && len(rest) > 0 {
			part := rest[:min(most, len(rest))]
			rest = rest[len(part):]
			err = framer.WriteContinuation(id, len(rest) == 0, part)
		}
		if err != nil {
			return err
		}
	}
	return framer.WritePing(false, ping)
}

// TestHeadersOfACall: a token of usual length and a trace fit, and the error of a call with
// more names the bound.
func TestHeadersOfACall(t *testing.T) {
	g, stranger := serveTLS(t)
	client := registryv1.NewRegistryClient(g.dial(t, stranger.Credentials()))
	for size, want := range map[int]string{8 << 10: "does not name this token", wire.MaxHeaderBytes: "16384"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.Repeat("x", size))
		_, err := client.Get(ctx, &registryv1.GetRequest{Tenant: "acme", Name: "none"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", size, err, want)
		}
	}
}
