package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/script"
)

// chunkBytes is about how much goes into one message of a stream: large enough
// to be fast, small enough for any client to take.
const chunkBytes = 1 << 20

// inlined gathers the sources that travel along, each once in an answer.
type inlined struct {
	registry *registry.Registry
	off      bool
	sent     map[script.Digest]bool // or about to be
	next     []script.Digest
}

func sourcesOf(r *registry.Registry, off bool) inlined {
	return inlined{registry: r, off: off, sent: map[script.Digest]bool{}}
}

// size returns how many bytes of source the entry brings along.
func (i *inlined) size(e *mirror.Entry) int {
	size := 0
	for c := range e.Inline {
		if !i.off && !i.sent[c.Digest] {
			size += c.Size
		}
	}
	return size
}

func (i *inlined) add(e *mirror.Entry) {
	for c := range e.Inline {
		if !i.off && !i.sent[c.Digest] {
			i.sent[c.Digest] = true
			i.next = append(i.next, c.Digest)
		}
	}
}

// take returns the sources that were added since.
func (i *inlined) take(ctx context.Context) ([]registry.Source, error) {
	if len(i.next) == 0 {
		return nil, nil
	}
	sources, err := i.registry.Sources(ctx, i.next)
	i.next = i.next[:0]
	return sources, err
}

// pages answers a Pull.
type pages struct {
	stream  grpc.ServerStreamingServer[registryv1.PullResponse]
	sealer  *seal.Sealer
	sources inlined
	request *registryv1.PullRequest
	session seal.Session // the zero one if the follower has none
	group   string
	changes mirror.Changes

	entries    [][]byte
	unreadable []string
	bytes      int
	number     int32
}

// send sends at least one page: the last one has the checksum.
func (p *pages) send(ctx context.Context) error {
	for _, key := range p.changes.Unreadable {
		if p.bytes > 0 && p.bytes+len(key) > chunkBytes {
			if err := p.flush(ctx, false); err != nil {
				return err
			}
		}
		p.unreadable, p.bytes = append(p.unreadable, key), p.bytes+len(key)
	}
	for _, e := range p.changes.Entries {
		sealed, err := e.Sealed()
		if err != nil {
			return err
		}
		size := len(sealed) + p.sources.size(e)
		if p.bytes > 0 && p.bytes+size > chunkBytes {
			if err := p.flush(ctx, false); err != nil {
				return err
			}
		}
		p.entries, p.bytes = append(p.entries, sealed), p.bytes+size
		p.sources.add(e)
	}
	return p.flush(ctx, true)
}

func (p *pages) flush(ctx context.Context, last bool) error {
	page := &eventv1.Page{
		Fleet:        p.changes.Fleet,
		Group:        p.group,
		Nonce:        p.request.GetNonce(),
		Number:       p.number,
		Last:         last,
		HeadRevision: int64(p.changes.Head),
		Full:         p.changes.Full,
		Entries:      p.entries,
		Since:        p.request.GetSince(),
		SinceFleet:   p.request.GetFleet(),
		Unreadable:   p.unreadable,
		Removals:     proto.Int64(p.changes.Group.Removed),

		AcceptedLoss: p.changes.Loss.Objects, AcceptedLossRevision: int64(p.changes.Loss.At),
	}
	if p.number == 0 {
		page.Session, page.SessionKey = p.session.Token, p.session.Key
	}
	if last {
		page.Checksums = p.changes.Group.Sums.Checksums()
	}
	sealed, err := p.sealer.Seal(page)
	if err != nil {
		return script.Errorf(script.Internal, "", "seal a page: %w", err)
	}
	sources, err := p.sources.take(ctx)
	if err != nil {
		return err
	}
	p.entries, p.unreadable, p.bytes, p.number = p.entries[:0], nil, 0, p.number+1
	return p.stream.Send(&registryv1.PullResponse{Page: sealed, Sources: fromSources(sources)})
}

// chunks answers a Sync.
type chunks struct {
	stream  grpc.ServerStreamingServer[registryv1.SyncResponse]
	sources inlined
	changes mirror.Changes

	objects []*eventv1.Object
	bytes   int
	sent    bool
}

// send sends at least one message, for it carries the head.
func (c *chunks) send(ctx context.Context) error {
	for _, e := range c.changes.Entries {
		object, err := e.Object()
		if err != nil {
			return err
		}
		size := proto.Size(object) + c.sources.size(e)
		if c.bytes > 0 && c.bytes+size > chunkBytes {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
		c.objects, c.bytes = append(c.objects, object), c.bytes+size
		c.sources.add(e)
	}
	if c.sent && len(c.objects) == 0 {
		return nil
	}
	return c.flush(ctx)
}

func (c *chunks) flush(ctx context.Context) error {
	sources, err := c.sources.take(ctx)
	if err != nil {
		return err
	}
	err = c.stream.Send(&registryv1.SyncResponse{
		Fleet:        c.changes.Fleet,
		HeadRevision: int64(c.changes.Head),
		Full:         c.changes.Full,
		Objects:      c.objects,
		Sources:      fromSources(sources),
	})
	c.objects, c.bytes, c.sent = nil, 0, true
	return err
}
