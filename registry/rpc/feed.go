package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

type feedService struct {
	registryv1.UnimplementedFeedServer
	registry *registry.Registry
}

// chunkBytes is about how much goes into one message of a stream: large enough
// to be fast, small enough for any client to take.
const chunkBytes = 1 << 20

func (s *feedService) Sync(m *registryv1.SyncRequest, stream grpc.ServerStreamingServer[registryv1.SyncResponse]) error {
	ctx := stream.Context()
	changes, err := s.registry.Changes(ctx, m.GetFleet(), script.Revision(m.GetSince()))
	if err != nil {
		return err
	}
	fleet, err := s.registry.Fleet(ctx)
	if err != nil {
		return err
	}
	c := chunks{
		stream:   stream,
		registry: s.registry,
		inline:   !m.GetWithoutSources(),
		sent:     map[script.Digest]bool{},
		empty:    func() *registryv1.SyncResponse { return newChunk(fleet, changes) },
	}
	c.next = c.empty()
	for release, err := range changes.Releases {
		if err != nil {
			return err
		}
		if err := c.add(ctx, release); err != nil {
			return err
		}
	}
	return c.last(ctx)
}

func newChunk(fleet string, changes registry.Changes) *registryv1.SyncResponse {
	return &registryv1.SyncResponse{Fleet: fleet, HeadRevision: int64(changes.Head), Full: changes.Full}
}

// chunks sends releases in messages of about chunkBytes, with the sources that
// travel along.
type chunks struct {
	stream   grpc.ServerStreamingServer[registryv1.SyncResponse]
	registry *registry.Registry
	inline   bool
	sent     map[script.Digest]bool // sources that were sent, or are about to be
	empty    func() *registryv1.SyncResponse

	next   *registryv1.SyncResponse
	bytes  int
	fetch  []script.Digest
	chunks int
}

func (c *chunks) add(ctx context.Context, r script.Release) error {
	object := wire.FromReleaseObject(r)
	size := proto.Size(object)
	active := r.Active
	withSource := c.inline && active.Number != 0 && active.Size <= registry.InlineSourceBytes && !c.sent[active.Digest]
	if withSource {
		size += active.Size
	}
	if c.bytes > 0 && c.bytes+size > chunkBytes {
		if err := c.send(ctx); err != nil {
			return err
		}
	}
	c.next.Objects = append(c.next.Objects, object)
	c.bytes += size
	if withSource {
		c.sent[active.Digest] = true
		c.fetch = append(c.fetch, active.Digest)
	}
	return nil
}

// last sends what is left: at least one message, for it carries the head.
func (c *chunks) last(ctx context.Context) error {
	if c.chunks > 0 && len(c.next.GetObjects()) == 0 {
		return nil
	}
	return c.send(ctx)
}

func (c *chunks) send(ctx context.Context) error {
	if len(c.fetch) > 0 {
		sources, err := c.registry.Sources(ctx, c.fetch)
		if err != nil {
			return err
		}
		c.next.Sources = fromSources(sources)
	}
	err := c.stream.Send(c.next)
	c.next, c.bytes, c.fetch = c.empty(), 0, c.fetch[:0]
	c.chunks++
	return err
}

// fetchBatch is how many sources, of up to 1 MiB each, are in memory at once.
const fetchBatch = 8

func (s *feedService) FetchSources(m *registryv1.FetchSourcesRequest, stream grpc.ServerStreamingServer[registryv1.FetchSourcesResponse]) error {
	digests := make([]script.Digest, 0, len(m.GetDigests()))
	for _, raw := range m.GetDigests() {
		digest, err := wire.ToDigest(raw)
		if err != nil {
			return err
		}
		digests = append(digests, digest)
	}
	for len(digests) > 0 {
		batch := digests[:min(fetchBatch, len(digests))]
		digests = digests[len(batch):]
		sources, err := s.registry.Sources(stream.Context(), batch)
		if err != nil {
			return err
		}
		if err := sendSources(stream, sources); err != nil {
			return err
		}
	}
	return nil
}

// sendSources sends the sources in messages of about chunkBytes.
func sendSources(stream grpc.ServerStreamingServer[registryv1.FetchSourcesResponse], sources []registry.Source) error {
	for len(sources) > 0 {
		n, bytes := 1, len(sources[0].Content)
		for n < len(sources) && bytes+len(sources[n].Content) <= chunkBytes {
			bytes += len(sources[n].Content)
			n++
		}
		if err := stream.Send(&registryv1.FetchSourcesResponse{Sources: fromSources(sources[:n])}); err != nil {
			return err
		}
		sources = sources[n:]
	}
	return nil
}

func fromSources(sources []registry.Source) []*scriptv1.Source {
	messages := make([]*scriptv1.Source, len(sources))
	for i, s := range sources {
		messages[i] = &scriptv1.Source{Digest: wire.FromDigest(s.Digest), Content: s.Content}
	}
	return messages
}
