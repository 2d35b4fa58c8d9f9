package agent_test

import (
	"bytes"
	"crypto/ed25519"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// registry is a small one, over real gRPC and real NATS.
type registry struct {
	registryv1.UnimplementedFeedServer
	t    *testing.T
	dir  string
	addr string

	sealer *seal.Sealer
	grpc   *grpc.Server
	nats   *server.Server
	conn   *nats.Conn

	mu       sync.Mutex
	head     int64
	sequence uint64
	groups   map[string]*group
	releases map[string]script.Release // by "tenant/name"
	others   map[string]script.Object  // values and tenants, by key
	sources  map[script.Digest][]byte
	mute     bool   // publishes nothing
	slowly   func() // called after the first page of an answer; nil for answers of one page
}

// group is a chain of the feed.
type group struct {
	tenants script.Selector
	last    int64
}

var subjects = wire.Subjects{Prefix: wire.DefaultPrefix}

func keyOf(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
}

func publicOf(number byte) ed25519.PublicKey { return keyOf(number).Public().(ed25519.PublicKey) }

const socketName = "registry.sock"

func newRegistry(t *testing.T) *registry {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &registry{
		t: t, dir: dir, addr: porttest.Address(t), head: 1, sealer: seal.NewSealer(keyOf(1)),
		groups:   map[string]*group{script.GroupAll: {last: 1}},
		releases: map[string]script.Release{}, others: map[string]script.Object{}, sources: map[script.Digest][]byte{},
	}
}

func (r *registry) start() {
	r.t.Helper()
	path := filepath.Join(r.dir, socketName)
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.grpc = grpc.NewServer()
	registryv1.RegisterFeedServer(r.grpc, r)
	go r.grpc.Serve(l)

	addr, err := net.ResolveTCPAddr("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.nats, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: addr.Port, NoLog: true, NoSigs: true})
	if err != nil {
		r.t.Fatal(err)
	}
	r.nats.Start()
	if !r.nats.ReadyForConnections(20 * time.Second) {
		r.t.Fatal("NATS does not start")
	}
	if r.conn, err = nats.Connect(r.nats.ClientURL()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.stop)
}

func (r *registry) stop() {
	r.conn.Close()
	r.grpc.Stop()
	r.nats.Shutdown()
	r.nats.WaitForShutdown()
}

// publish adds a version and retains those before.
func (r *registry) publish(name, source string) script.Revision {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	full := name
	if !strings.Contains(name, "/") {
		full = "acme/" + name
	}
	r.head++
	rel := r.releases[full]
	rel.Name, _ = script.ParseName(full)
	rel.Revision = script.Revision(r.head)
	rel.Enabled = true
	rel.Latest++
	rel.Active = script.Version{Number: rel.Latest, Digest: script.DigestOf([]byte(source)), Engine: "echo", Size: len(source)}
	rel.Retained = append(slices.Clone(rel.Retained), rel.Active)
	r.releases[full] = rel
	r.announce(script.Object{Release: &rel}, []byte(source))
	return rel.Revision
}

// announce sends the object of the head to its groups. r.mu is held.
func (r *registry) announce(o script.Object, content []byte) {
	e := &eventv1.Event{Fleet: "f", Revision: r.head, Entries: [][]byte{r.seal(wire.FromObjectEntry("f", o))}}
	r.sources[script.DigestOf(content)] = content
	e.Sources = r.inlined(o)
	for name, g := range r.groups {
		if g.tenants.Matches(o.TenantName()) {
			e.Group, e.PreviousRevision = name, g.last
			r.send(subjects.Event(name), e)
			g.last = r.head
		}
	}
}

// maxInlined is the size of the largest content that is sent with its object.
const maxInlined = 64 << 10

// inlined returns the contents that are sent with the object. r.mu is held.
func (r *registry) inlined(o script.Object) []*scriptv1.Source {
	var sources []*scriptv1.Source
	for c := range o.Contents {
		if content, ok := r.sources[c.Digest]; ok && len(content) <= maxInlined {
			sources = append(sources, &scriptv1.Source{Digest: wire.FromDigest(c.Digest), Content: content})
		}
	}
	return sources
}

func (r *registry) seal(m proto.Message) []byte {
	data, err := r.sealer.Seal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

func (r *registry) send(subject string, m proto.Message) {
	if r.mute || r.conn == nil {
		return
	}
	_ = r.conn.Publish(subject, r.seal(m)) // the agents notice what is lost
}

func (r *registry) beacon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, g := range r.groups {
		r.sequence++
		r.send(subjects.Beacon(name), &eventv1.Beacon{
			Fleet: "f", Group: name, HeadRevision: r.head, GroupRevision: g.last, Term: 1, Sequence: r.sequence,
			Checksums: r.checksums(g.tenants),
		})
	}
}

func (r *registry) checksums(tenants script.Selector) []*eventv1.Checksum {
	sums := map[script.ObjectKind]wire.Sum{script.Releases: {}, script.Values: {}, script.Tenants: {}}
	for _, o := range r.all() {
		if tenants.Matches(o.TenantName()) {
			sum := sums[o.Kind()]
			sum.Add(wire.FingerprintObject(o))
			sums[o.Kind()] = sum
		}
	}
	var checksums []*eventv1.Checksum
	for kind, sum := range sums {
		checksums = append(checksums, &eventv1.Checksum{Kind: string(kind), Sum: sum.Bytes()})
	}
	return checksums
}

// all returns the objects of all kinds, by key. r.mu is held.
func (r *registry) all() map[string]script.Object {
	all := maps.Clone(r.others)
	for _, rel := range r.releases {
		all[wire.ReleaseKey(rel.Name)] = script.Object{Release: &rel}
	}
	return all
}

func (r *registry) Pull(req *registryv1.PullRequest, stream registryv1.Feed_PullServer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	tenants, err := script.ParseSelector(req.GetTenants())
	if err != nil {
		return wire.ToStatus(err)
	}
	if r.groups[tenants.Group()] == nil {
		r.groups[tenants.Group()] = &group{tenants: tenants, last: r.head}
	}
	page := &eventv1.Page{
		Fleet: "f", Group: tenants.Group(), Nonce: req.GetNonce(), Last: true, HeadRevision: r.head,
		Full: req.GetFleet() != "f" || req.GetSince() == 0, Checksums: r.checksums(tenants),
		Since: req.GetSince(), SinceFleet: req.GetFleet(),
	}
	resp := &registryv1.PullResponse{}
	all := r.all()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		o := all[key]
		if !tenants.Matches(o.TenantName()) || page.GetFull() && o.Deleted() || !page.GetFull() && int64(o.Revision()) <= req.GetSince() {
			continue
		}
		page.Entries = append(page.Entries, r.seal(wire.FromObjectEntry("f", o)))
		if !req.GetWithoutSources() {
			resp.Sources = append(resp.Sources, r.inlined(o)...)
		}
	}
	if r.slowly != nil {
		first := &eventv1.Page{
			Fleet: "f", Group: page.GetGroup(), Nonce: page.GetNonce(), HeadRevision: page.GetHeadRevision(),
			Full: page.GetFull(), Since: page.GetSince(), SinceFleet: page.GetSinceFleet(),
		}
		if err := stream.Send(&registryv1.PullResponse{Page: r.seal(first)}); err != nil {
			return err
		}
		r.slowly()
		page.Number = 1
	}
	resp.Page = r.seal(page)
	return stream.Send(resp)
}

func (r *registry) FetchSources(req *registryv1.FetchSourcesRequest, stream registryv1.Feed_FetchSourcesServer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &registryv1.FetchSourcesResponse{}
	for _, raw := range req.GetDigests() {
		d, err := wire.ToDigest(raw)
		if err != nil {
			return wire.ToStatus(err)
		}
		if src, ok := r.sources[d]; ok {
			resp.Sources = append(resp.Sources, &scriptv1.Source{Digest: raw, Content: src})
		}
	}
	return stream.Send(resp)
}

// put makes the content that of the value "tenant/key"; delete takes it away.
func (r *registry) put(name, content string) script.Revision {
	return r.change(func(v *script.Value) {
		v.Digest, v.Size = script.DigestOf([]byte(content)), len(content)
	}, name, content)
}

func (r *registry) delete(name string) script.Revision {
	return r.change(func(v *script.Value) { v.Deleted = true }, name, "")
}

func (r *registry) change(change func(v *script.Value), name, content string) script.Revision {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head++
	key, err := script.ParseValueKey(name)
	if err != nil {
		r.t.Fatal(err)
	}
	v := &script.Value{Key: key, Revision: script.Revision(r.head)}
	change(v)
	o := script.Object{Value: v}
	r.others[o.Key()] = o
	r.announce(o, []byte(content))
	return v.Revision
}

// configure sets the tenant's settings.
func (r *registry) configure(tenant string, settings script.TenantSettings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head++
	o := script.Object{Tenant: &script.Tenant{Name: tenant, Revision: script.Revision(r.head), Settings: settings}}
	r.others[o.Key()] = o
	r.announce(o, nil)
}
