package rpc_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// signingKey is the registry's, in tests.
var signingKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

// groups remember what is followed.
type groups struct {
	mu       sync.Mutex
	followed []string
	err      error
}

func (g *groups) Follow(_ context.Context, _ access.Identity, tenants script.Selector) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.followed = append(g.followed, tenants.String())
	return g.err
}

func (g *groups) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.followed)
}

func (g *groups) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// sessions make the same one for everybody.
type sessions struct{}

func (sessions) Open(access.Identity, session.Session) (seal.Session, error) {
	return seal.Session{Token: []byte("token"), Key: []byte("key")}, nil
}

// sync reads a whole stream of Sync.
func (b *bench) sync(t *testing.T, req *registryv1.SyncRequest) []*registryv1.SyncResponse {
	t.Helper()
	stream, err := b.feed.Sync(t.Context(), req)
	return received(t, stream, err)
}

// received reads the whole of a stream that was asked for.
func received[T any](t *testing.T, stream grpc.ServerStreamingClient[T], err error) (all []*T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

func TestSync(t *testing.T) {
	b := newBench(t)
	if first := b.sync(t, &registryv1.SyncRequest{}); len(first) != 1 || !first[0].GetFull() || first[0].GetFleet() != b.id || first[0].GetHeadRevision() != 0 {
		t.Fatalf("of nothing: %v", first)
	}
	// 60 scripts of 60 KiB, two of which share their source, and one too large to inline.
	for i := range 60 {
		b.publish(t, fmt.Sprint("s", i), fmt.Sprintf("%d %s", i, strings.Repeat("x", 60<<10)))
	}
	b.publish(t, "twin", fmt.Sprintf("%d %s", 0, strings.Repeat("x", 60<<10)))
	large := b.publish(t, "large", strings.Repeat("l", 65<<10)).GetRelease()

	all := b.sync(t, &registryv1.SyncRequest{})
	objects, sources := map[string]bool{}, map[string]bool{}
	for _, resp := range all {
		if size := proto.Size(resp); size > 1<<20+128<<10 {
			t.Errorf("a message of %d bytes", size)
		}
		if !resp.GetFull() || resp.GetHeadRevision() != large.GetRevision() || resp.GetFleet() != b.id {
			t.Errorf("header: full %v, head %d, fleet %q", resp.GetFull(), resp.GetHeadRevision(), resp.GetFleet())
		}
		for _, o := range resp.GetObjects() {
			if _, ok, err := wire.ToReleaseObject(o); !ok || err != nil {
				t.Errorf("object: %v, %v", ok, err)
			}
			objects[o.GetKey()] = true
		}
		for _, s := range resp.GetSources() {
			if d := script.DigestOf(s.GetContent()); !bytes.Equal(d[:], s.GetDigest()) {
				t.Error("a source does not match its digest")
			}
			if sources[string(s.GetDigest())] {
				t.Error("a source came twice")
			}
			sources[string(s.GetDigest())] = true
		}
	}
	if len(objects) != 62 || len(sources) != 60 || len(all) < 3 {
		t.Errorf("%d objects, %d sources in %d messages; want 62, 60 in some", len(objects), len(sources), len(all))
	}

	since := large.GetRevision() - 1
	for name, test := range map[string]struct {
		req  *registryv1.SyncRequest
		full bool
		want int
	}{
		"one behind":      {&registryv1.SyncRequest{Fleet: b.id, Since: since}, false, 1},
		"current":         {&registryv1.SyncRequest{Fleet: b.id, Since: since + 1}, false, 0},
		"another fleet":   {&registryv1.SyncRequest{Fleet: "other", Since: since}, true, 62},
		"no fleet":        {&registryv1.SyncRequest{Since: since}, true, 62},
		"from the future": {&registryv1.SyncRequest{Fleet: b.id, Since: since + 100}, true, 62},
	} {
		test.req.WithoutSources = true
		got, n := b.sync(t, test.req), 0
		for _, resp := range got {
			n += len(resp.GetObjects())
			if len(resp.GetSources()) != 0 {
				t.Errorf("%s: sources that nobody asked for", name)
			}
		}
		if len(got) == 0 || got[0].GetFull() != test.full || n != test.want {
			t.Errorf("%s: %d objects, full %v; want %d, %v", name, n, got[0].GetFull(), test.want, test.full)
		}
	}
	stream, err := b.feed.Sync(t.Context(), &registryv1.SyncRequest{Fleet: b.id, Since: -1})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument || detail(t, err).GetField() != "since" {
		t.Errorf("since -1: %v", err)
	}
}

func TestFetchSources(t *testing.T) {
	b := newBench(t)
	req := &registryv1.FetchSourcesRequest{}
	want := map[string]bool{}
	for i := range 10 {
		v := b.publish(t, fmt.Sprint("s", i), fmt.Sprintf("%d %s", i, strings.Repeat("x", i*100<<10))).GetVersion()
		req.Digests = append(req.Digests, v.GetDigest(), bytes.Repeat([]byte{byte(i)}, 32))
		want[string(v.GetDigest())] = true
	}
	stream, err := b.feed.FetchSources(t.Context(), req)
	for _, resp := range received(t, stream, err) {
		if size := proto.Size(resp); size > 1<<20+1<<10 {
			t.Errorf("a message of %d bytes", size)
		}
		for _, s := range resp.GetSources() {
			if d := script.DigestOf(s.GetContent()); !bytes.Equal(d[:], s.GetDigest()) || !want[string(d[:])] {
				t.Errorf("a source that was not asked for, or twice, or wrong: %s", d)
			}
			delete(want, string(s.GetDigest()))
		}
	}
	if len(want) != 0 {
		t.Errorf("%d sources did not come", len(want))
	}
	fetch := func(digests ...[]byte) (*registryv1.FetchSourcesResponse, error) {
		stream, err := b.feed.FetchSources(t.Context(), &registryv1.FetchSourcesRequest{Digests: digests})
		if err != nil {
			return nil, err
		}
		return stream.Recv()
	}
	if _, err := fetch([]byte{1, 2, 3}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a digest of 3 bytes: %v", err)
	}
	if got, err := fetch(slices.Repeat(req.GetDigests()[:1], 10_000)...); err != nil || len(got.GetSources()) != 1 {
		t.Errorf("the same one 10,000 times: %d sources, %v", len(got.GetSources()), err)
	}
	if _, err := fetch(slices.Repeat(req.GetDigests()[:1], 10_001)...); script.KindOf(wire.FromStatus(err)) != script.Limit {
		t.Errorf("10,001 digests: %v, want LIMIT", err)
	}
}
