package rpc_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry/memstore"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
	"github.com/scriptorium-dev/scriptorium/script"
)

var keyring = seal.NewKeyring(signingKey.Public().(ed25519.PublicKey))

// pulled is what a follower makes of an answer to a Pull.
type pulled struct {
	pages    int
	head     int64
	full     bool
	releases map[string]script.Release // by their names
	sources  map[string]bool           // by their digests
	sum      wire.Sum
	session  string // of the first page
}

// pull reads a whole answer, and checks all that a follower checks.
func pull(t *testing.T, feed registryv1.FeedClient, req *registryv1.PullRequest) (pulled, error) {
	t.Helper()
	if req.GetNonce() == nil {
		req.Nonce = []byte("sixteen bytes...")
	}
	tenants, err := script.ParseSelector(req.GetTenants())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := feed.Pull(t.Context(), req)
	if err != nil {
		return pulled{}, err
	}
	got := pulled{releases: map[string]script.Release{}, sources: map[string]bool{}}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return got, err
		}
		if size := proto.Size(resp); size > 1<<20+128<<10 {
			t.Errorf("a message of %d bytes", size)
		}
		var page eventv1.Page
		if _, err := keyring.Open(resp.GetPage(), &page); err != nil {
			t.Fatal(err)
		}
		if int(page.GetNumber()) != got.pages || page.GetGroup() != tenants.Group() || !bytes.Equal(page.GetNonce(), req.GetNonce()) {
			t.Errorf("page %d of group %s for %q; want %d", page.GetNumber(), page.GetGroup(), page.GetNonce(), got.pages)
		}
		if page.GetSince() != req.GetSince() || page.GetSinceFleet() != req.GetFleet() {
			t.Errorf("page since %d of %q; want %d of %q", page.GetSince(), page.GetSinceFleet(), req.GetSince(), req.GetFleet())
		}
		got.pages, got.head, got.full = got.pages+1, page.GetHeadRevision(), page.GetFull()
		got.add(t, &page)
		if page.GetNumber() == 0 {
			got.session = string(page.GetSession())
		}
		for _, s := range resp.GetSources() {
			if d := script.DigestOf(s.GetContent()); !bytes.Equal(d[:], s.GetDigest()) || got.sources[d.String()] {
				t.Error("a source does not match its digest, or came twice")
			}
			got.sources[script.DigestOf(s.GetContent()).String()] = true
		}
		if !page.GetLast() {
			continue
		}
		if got.sum, err = wire.ToSum(page.GetChecksums()[0].GetSum()); err != nil || page.GetChecksums()[0].GetKind() != wire.KindRelease {
			t.Errorf("checksum: %v", page.GetChecksums())
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last page: %v", err)
		}
		return got, nil
	}
}

func (p *pulled) add(t *testing.T, page *eventv1.Page) {
	t.Helper()
	for _, sealed := range page.GetEntries() {
		var entry eventv1.Entry
		if _, err := keyring.Open(sealed, &entry); err != nil {
			t.Fatal(err)
		}
		r, ok, err := wire.ToReleaseObject(entry.GetObject())
		if err != nil || !ok || entry.GetFleet() != page.GetFleet() {
			t.Errorf("entry of fleet %s in a page of %s: %v, %v", entry.GetFleet(), page.GetFleet(), ok, err)
		}
		p.releases[r.Name.String()] = r
	}
}

func (p *pulled) names() (names []string) {
	for name := range p.releases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b *bench) publishTo(t *testing.T, tenant, name, source string) *registryv1.PublishResponse {
	t.Helper()
	resp, err := b.Publish(t.Context(), &registryv1.PublishRequest{Tenant: tenant, Name: name, Source: []byte(source), Author: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestPull(t *testing.T) {
	b := newBench(t)
	if got, err := pull(t, b.feed, &registryv1.PullRequest{}); err != nil || got.pages != 1 || !got.full || got.head != 0 || got.sum != (wire.Sum{}) {
		t.Fatalf("of nothing: %+v, %v", got, err)
	}
	for i := range 60 {
		b.publish(t, fmt.Sprint("s", i), fmt.Sprintf("%d %s", i, strings.Repeat("x", 60<<10)))
	}
	b.publishTo(t, "shop-a", "route", "return 1")
	b.publishTo(t, "shop-a", "gone", "return 2")
	if _, err := b.Delete(t.Context(), &registryv1.DeleteRequest{Tenant: "shop-a", Name: "gone", Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	head := b.publishTo(t, "shop-b", "route", "return 3").GetRelease().GetRevision()
	all, err := pull(t, b.feed, &registryv1.PullRequest{})
	if err != nil || !all.full || all.head != head || all.pages < 3 || len(all.releases) != 62 || len(all.sources) != 62 {
		t.Errorf("of all: full %v, head %d, %d pages, %d releases, %d sources, %v", all.full, all.head, all.pages, len(all.releases), len(all.sources), err)
	}
	var sum wire.Sum
	for _, r := range all.releases {
		sum.Add(wire.Fingerprint(r))
	}
	if sum != all.sum {
		t.Error("the checksum is not that of the releases")
	}
	for name, test := range map[string]struct {
		req  *registryv1.PullRequest
		full bool
		want []string
	}{
		"shops":              {&registryv1.PullRequest{Tenants: []string{"shop-*"}}, true, []string{"shop-a/route", "shop-b/route"}},
		"shops, three less":  {&registryv1.PullRequest{Fleet: b.id, Since: head - 3, Tenants: []string{"shop-*"}}, false, []string{"shop-a/gone", "shop-b/route"}},
		"shop-a, one behind": {&registryv1.PullRequest{Fleet: b.id, Since: head - 1, Tenants: []string{"shop-a"}}, false, nil},
		"current":            {&registryv1.PullRequest{Fleet: b.id, Since: head}, false, nil},
		"the future":         {&registryv1.PullRequest{Fleet: b.id, Since: head + 1, Tenants: []string{"shop-b"}}, true, []string{"shop-b/route"}},
		"another fleet":      {&registryv1.PullRequest{Fleet: "F", Since: head, Tenants: []string{"shop-b"}}, true, []string{"shop-b/route"}},
		"nobody":             {&registryv1.PullRequest{Tenants: []string{"nobody"}}, true, nil},
	} {
		test.req.WithoutSources = true
		got, err := pull(t, b.feed, test.req)
		if err != nil || got.full != test.full || !slices.Equal(got.names(), test.want) || got.head != head || len(got.sources) != 0 {
			t.Errorf("%s: %v, full %v, at %d, %v; want %v, %v", name, got.names(), got.full, got.head, err, test.want, test.full)
		}
		tenants, _ := script.ParseSelector(test.req.GetTenants())
		if want := b.mirror.Group(tenants).Sums.Of(script.Releases); got.sum != want {
			t.Errorf("%s: another checksum than the mirror's", name)
		}
		if followed := b.groups.all(); !slices.Contains(followed, tenants.String()) {
			t.Errorf("%s: Groups did not hear that an agent follows %v", name, tenants)
		}
	}
}

func TestPullRefuses(t *testing.T) {
	b := newBench(t)
	for name, test := range map[string]struct {
		req   *registryv1.PullRequest
		field string
	}{
		"a short nonce":    {&registryv1.PullRequest{Nonce: make([]byte, 15)}, "nonce"},
		"a long nonce":     {&registryv1.PullRequest{Nonce: make([]byte, 65)}, "nonce"},
		"since below 0":    {&registryv1.PullRequest{Nonce: make([]byte, 16), Since: -1}, "since"},
		"no glob":          {&registryv1.PullRequest{Nonce: make([]byte, 16), Tenants: []string{"NO GLOB"}}, "tenants"},
		"a thousand globs": {&registryv1.PullRequest{Nonce: make([]byte, 16), Tenants: slices.Repeat([]string{"a"}, 1000)}, "tenants"},
	} {
		stream, err := b.feed.Pull(t.Context(), test.req)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument || detail(t, err).GetField() != test.field {
			t.Errorf("%s: %v, want INVALID at %s", name, err, test.field)
		}
	}
}

// TestAPullNeedsNoGroup: one that cannot be added costs the follower its events and its session,
// and not what it asks for.
func TestAPullNeedsNoGroup(t *testing.T) {
	b := newBench(t)
	b.publish(t, "route", "return 1")
	req := &registryv1.PullRequest{Tenants: []string{"acme"}, Agent: "a", Incarnation: "1"}
	if got, err := pull(t, b.feed, req); err != nil || got.session != "token" {
		t.Errorf("with a group, the session is %q: %v", got.session, err)
	}
	for _, kind := range []script.Kind{script.Limit, script.Unavailable} {
		b.groups.fail(script.Errorf(kind, "tenants", "it cannot be added"))
		if got, err := pull(t, b.feed, req); err != nil || len(got.releases) != 1 || got.session != "" {
			t.Errorf("%s: %v, session %q, %v", kind, got.names(), got.session, err)
		}
	}
}

// TestFollowersSeeWhatTheyMayRead and no source of anybody else, whatever they ask for.
func TestFollowersSeeWhatTheyMayRead(t *testing.T) {
	b := newBenchFor(t, memstore.New(), rpc.Authentication{InsecureTokens: true, Policy: policy(t, `
subjects:
  - name: root
    tokens: ["`+digestOf(tokenOf("root"))+`"]
    grants: [{roles: [admin], tenants: ["*"]}]
  - name: shops
    tokens: ["`+digestOf(tokenOf("shops"))+`"]
    grants: [{roles: [read], tenants: ["shop-*"]}]
`)})
	as := func(name string) registryv1.FeedClient {
		conn, err := grpc.NewClient(b.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), withToken(tokenOf(name)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if name == "root" {
			b.RegistryClient = registryv1.NewRegistryClient(conn)
		}
		return registryv1.NewFeedClient(conn)
	}
	root, shops := as("root"), as("shops")
	own := b.publishTo(t, "shop-a", "route", "return 'own'").GetVersion().GetDigest()
	shared := b.publishTo(t, "shop-b", "route", "return 'shared'").GetVersion().GetDigest()
	b.publishTo(t, "acme", "twin", "return 'shared'")
	foreign := b.publishTo(t, "acme", "route", "return 'foreign'").GetVersion().GetDigest()

	if got, err := pull(t, root, &registryv1.PullRequest{}); err != nil || len(got.releases) != 4 {
		t.Errorf("root: %v, %v", got.names(), err)
	}
	if got, err := pull(t, shops, &registryv1.PullRequest{Tenants: []string{"shop-*"}}); err != nil || len(got.releases) != 2 || len(got.sources) != 2 {
		t.Errorf("shops: %v, %v", got.names(), err)
	}
	before := len(b.groups.all())
	for _, tenants := range [][]string{nil, {"acme"}, {"shop-a", "acme"}, {"s*"}} {
		if got, err := pull(t, shops, &registryv1.PullRequest{Tenants: tenants}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("shops pull %v: %v, %v; want DENIED", tenants, got.names(), err)
		}
	}
	if after := b.groups.all(); len(after) != before {
		t.Errorf("%v are followed by somebody without that permission", after[before:])
	}
	stream, err := shops.Sync(t.Context(), &registryv1.SyncRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("shops sync: %v, want DENIED", err)
	}
	fetched := func(feed registryv1.FeedClient) (n int) {
		stream, err := feed.FetchSources(t.Context(), &registryv1.FetchSourcesRequest{Digests: [][]byte{own, shared, foreign}})
		for _, resp := range received(t, stream, err) {
			for _, s := range resp.GetSources() {
				if n++; bytes.Contains(s.GetContent(), []byte("foreign")) && feed == shops {
					t.Error("shops got the source of another tenant")
				}
			}
		}
		return n
	}
	if n := fetched(root); n != 3 {
		t.Errorf("root fetched %d sources, want 3", n)
	}
	if n := fetched(shops); n != 2 {
		t.Errorf("shops fetched %d sources, want 2", n)
	}
}
