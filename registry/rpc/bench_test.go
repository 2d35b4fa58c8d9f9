package rpc

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// BenchmarkSnapshot pulls 100,000 releases, of three versions each, without their
// sources over a Unix socket, and verifies the pages. "first" is the first pull after
// a start, which seals all entries if nobody has yet.
func BenchmarkSnapshot(b *testing.B) {
	const count = 100_000
	state := registry.State{Fleet: "F1", Head: count, Heads: map[string]script.Revision{}}
	for i := range count {
		r := script.Release{
			Name:     script.Name{Tenant: fmt.Sprint("tenant-", i%1000), Script: fmt.Sprint("script-", i)},
			Revision: script.Revision(i + 1), Latest: 3, Enabled: true, ChangedAt: time.Unix(1_700_000_000, 0),
		}
		for n := range uint64(3) {
			r.Retained = append(r.Retained, script.Version{
				Number: n + 1, Digest: script.DigestOf(fmt.Append(nil, i, n)), Engine: "lua", Entrypoint: "handle", Size: 1000,
				Author: "ann", Note: "a note", CreatedAt: time.Unix(1_700_000_000, 0),
			})
		}
		r.Active = r.Retained[2]
		state.Heads[r.Name.Tenant] = r.Revision
		state.Releases = append(state.Releases, r)
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	keyring := seal.NewKeyring(key.Public().(ed25519.PublicKey))
	start := func(b *testing.B) registryv1.FeedClient {
		b.Helper()
		m := mirror.New(seal.NewSealer(key), slog.New(slog.DiscardHandler))
		m.Reset(state)
		return serveUnix(b, Config{
			Registry: registry.New(registry.Config{Store: memstore.New()}), Mirror: m, Groups: nobody{}, Sealer: seal.NewSealer(key),
			Log: slog.New(slog.DiscardHandler),
		})
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			client := start(b)
			b.StartTimer()
			snapshot(b, client, keyring, count)
		}
	})
	b.Run("sealed", func(b *testing.B) {
		client := start(b)
		bytes := snapshot(b, client, keyring, count)
		for b.Loop() {
			snapshot(b, client, keyring, count)
		}
		b.ReportMetric(float64(bytes)/1e6, "MB")
		b.ReportMetric(float64(bytes)/count, "B/release")
	})
}

func serveUnix(b *testing.B, cfg Config) registryv1.FeedClient {
	b.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	s := New(cfg)
	go s.Serve(ln)
	b.Cleanup(s.server.Stop)
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return registryv1.NewFeedClient(conn)
}

// snapshot pulls all, and returns how many bytes the pages have.
func snapshot(b *testing.B, client registryv1.FeedClient, keyring *seal.Keyring, want int) (bytes int) {
	b.Helper()
	stream, err := client.Pull(b.Context(), &registryv1.PullRequest{Nonce: make([]byte, 16), WithoutSources: true})
	entries := 0
	for err == nil {
		var resp *registryv1.PullResponse
		if resp, err = stream.Recv(); err != nil {
			break
		}
		var page eventv1.Page
		if _, err := keyring.Open(resp.GetPage(), &page); err != nil {
			b.Fatal(err)
		}
		bytes += len(resp.GetPage())
		entries += len(page.GetEntries())
	}
	if !errors.Is(err, io.EOF) || entries != want {
		b.Fatalf("%d entries, %v; want %d", entries, err, want)
	}
	return bytes
}
