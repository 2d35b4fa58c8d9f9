package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/registry/mirror"
	"github.com/scriptorium-dev/scriptorium/registry/session"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Groups keeps the groups of agents that follow the same tenants.
type Groups interface {
	// Follow says that who asks is about to follow the tenants. After an error it gets
	// no events of them, unless others follow the same.
	Follow(ctx context.Context, who access.Identity, tenants script.Selector) error
}

// Sessions are made for agents that pull.
type Sessions interface {
	// Open makes a session for an agent of who asks. Its errors are Denied or Invalid.
	Open(who access.Identity, of session.Session) (seal.Session, error)
}

// feedService serves followers from the mirror; of the store it asks for the head
// and for sources alone.
type feedService struct {
	registryv1.UnimplementedFeedServer
	registry *registry.Registry
	mirror   *mirror.Mirror
	groups   Groups
	sealer   *seal.Sealer
	sessions Sessions
	log      *slog.Logger
	head     shared[script.Revision]
	silent   seldom // about followers without events
}

func newFeedService(cfg Config) *feedService {
	s := &feedService{registry: cfg.Registry, mirror: cfg.Mirror, groups: cfg.Groups, sealer: cfg.Sealer, sessions: cfg.Sessions, log: cfg.Log}
	s.head.ask = s.registry.Head
	return s
}

// catchUpTimeout bounds the wait for the mirror.
const catchUpTimeout = 2 * time.Second

// catchUp waits until the mirror has all that was committed before the request.
func (s *feedService) catchUp(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	head, err := s.head.get(bounded)
	if err == nil {
		err = s.mirror.Reached(bounded, head)
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		return script.Errorf(script.Unavailable, "", "this replica does not keep up with the store: ask another one, or again: %w", err)
	}
	return err
}

// Bounds of a nonce.
const minNonce, maxNonce = 16, 64

func (s *feedService) Pull(m *registryv1.PullRequest, stream grpc.ServerStreamingServer[registryv1.PullResponse]) error {
	ctx := stream.Context()
	tenants, err := script.ParseSelector(m.GetTenants())
	if err != nil {
		return err
	}
	if n := len(m.GetNonce()); n < minNonce || n > maxNonce {
		return script.Errorf(script.Invalid, "nonce", "has %d bytes, want %d to %d random ones", n, minNonce, maxNonce)
	}
	changes, served, err := s.changes(ctx, mirror.Query{Fleet: m.GetFleet(), Since: script.Revision(m.GetSince()), Tenants: tenants})
	if err != nil {
		return err
	}
	opened, err := s.open(ctx, m, changes.Fleet, tenants)
	if err != nil {
		return err
	}
	if !served {
		opened = seal.Session{} // to report of the tenants would bring their group back
	}
	p := pages{
		stream:  stream,
		sealer:  s.sealer,
		session: opened,
		sources: sourcesOf(s.registry, m.GetWithoutSources()),
		request: m,
		group:   tenants.Group(),
		changes: changes,
	}
	return p.send(ctx)
}

// open makes a session for the agent that the request names, if it names one. The store has
// been read since the request came, so that the session is newer than all before.
func (s *feedService) open(ctx context.Context, m *registryv1.PullRequest, fleet string, tenants script.Selector) (seal.Session, error) {
	if m.GetAgent() == "" || s.sessions == nil {
		return seal.Session{}, nil
	}
	return s.sessions.Open(access.FromContext(ctx), session.Session{
		Fleet: fleet, Agent: m.GetAgent(), Incarnation: m.GetIncarnation(), Tenants: tenants,
	})
}

func (s *feedService) Sync(m *registryv1.SyncRequest, stream grpc.ServerStreamingServer[registryv1.SyncResponse]) error {
	ctx := stream.Context()
	changes, _, err := s.changes(ctx, mirror.Query{Fleet: m.GetFleet(), Since: script.Revision(m.GetSince()), ReleasesOnly: true})
	if err != nil {
		return err
	}
	c := chunks{stream: stream, sources: sourcesOf(s.registry, m.GetWithoutSources()), changes: changes}
	return c.send(ctx)
}

// changes returns what the follower lacks, if it may have it, and whether the feed serves it.
func (s *feedService) changes(ctx context.Context, q mirror.Query) (c mirror.Changes, served bool, err error) {
	if q.Since < 0 {
		return mirror.Changes{}, false, script.Errorf(script.Invalid, "since", "%d is negative", q.Since)
	}
	if err := access.FromContext(ctx).CheckAll(access.Read, q.Tenants); err != nil {
		return mirror.Changes{}, false, err
	}
	served = s.follow(ctx, q.Tenants)
	if err := s.catchUp(ctx); err != nil {
		return mirror.Changes{}, false, err
	}
	return s.mirror.Changes(q), served, nil
}

// follow has the feed serve who follows the tenants, and reports whether it does. Where that
// fails the follower hears no beacon, and goes on to poll: it gets what it asks for all the same.
func (s *feedService) follow(ctx context.Context, tenants script.Selector) (served bool) {
	who := access.FromContext(ctx)
	bounded, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	err := s.groups.Follow(bounded, who, tenants)
	if err == nil || ctx.Err() != nil {
		return err == nil
	}
	if others, due := s.silent.due(); due {
		s.log.WarnContext(ctx, "agents get no events of the tenants that they follow, and poll; others are logged once a minute",
			"tenants", tenants, "identity", who.Name, "error", err, "others", others)
	}
	return false
}

const (
	// maxDigests of one request to fetch sources.
	maxDigests = 10_000
	// fetchBatch is how many sources, of up to 1 MiB each, are in memory at once.
	fetchBatch = 8
)

func (s *feedService) FetchSources(m *registryv1.FetchSourcesRequest, stream grpc.ServerStreamingServer[registryv1.FetchSourcesResponse]) error {
	ctx := stream.Context()
	if n := len(m.GetDigests()); n > maxDigests {
		return script.Errorf(script.Limit, "digests", "%d sources at once are too many: ask for at most %d", n, maxDigests)
	}
	digests := make([]script.Digest, 0, len(m.GetDigests()))
	for _, raw := range m.GetDigests() {
		digest, err := wire.ToDigest(raw)
		if err != nil {
			return err
		}
		digests = append(digests, digest)
	}
	slices.SortFunc(digests, func(a, b script.Digest) int { return bytes.Compare(a[:], b[:]) })
	digests, err := s.readable(ctx, slices.Compact(digests))
	if err != nil {
		return err
	}
	for len(digests) > 0 {
		batch := digests[:min(fetchBatch, len(digests))]
		digests = digests[len(batch):]
		sources, err := s.registry.Sources(ctx, batch)
		if err != nil {
			return err
		}
		if err := sendSources(stream, sources); err != nil {
			return err
		}
	}
	return nil
}

// readable returns those of the sources that the caller may read.
func (s *feedService) readable(ctx context.Context, digests []script.Digest) ([]script.Digest, error) {
	who := access.FromContext(ctx)
	may := func(tenant string) bool { return who.Allows(access.Read, tenant) }
	readable, unknown := s.mirror.Readable(digests, may)
	if unknown == 0 {
		return readable, nil
	}
	// The caller may have heard of a release before this replica has.
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	readable, _ = s.mirror.Readable(digests, may)
	return readable, nil
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
