package follow

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxMessage bytes are taken in one message of a stream: some sources and more.
const maxMessage = 32 << 20

// RPC is the Registry over gRPC. Its errors are *script.Error.
type RPC struct {
	client registryv1.FeedClient
}

var _ Registry = RPC{}

// NewRPC returns a client on the connection.
func NewRPC(conn grpc.ClientConnInterface) RPC {
	return RPC{client: registryv1.NewFeedClient(conn)}
}

// Pull implements Registry.
func (r RPC) Pull(ctx context.Context, req *registryv1.PullRequest) iter.Seq2[*registryv1.PullResponse, error] {
	return func(yield func(*registryv1.PullResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := r.client.Pull(ctx, req, grpc.MaxCallRecvMsgSize(maxMessage))
		if err != nil {
			yield(nil, wire.FromStatus(err))
			return
		}
		receive(stream.Recv, func(resp *registryv1.PullResponse, err error) bool {
			if e, ok := errors.AsType[*script.Error](err); ok && grpcstatus.Code(e.Err) == codes.Unimplemented {
				err = ErrOldRegistry
			}
			return yield(resp, err)
		})
	}
}

// Sync implements Registry.
func (r RPC) Sync(ctx context.Context, since Cursor, withoutSources bool) iter.Seq2[*registryv1.SyncResponse, error] {
	return func(yield func(*registryv1.SyncResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := r.client.Sync(ctx, &registryv1.SyncRequest{
			Fleet: since.Fleet, Since: int64(since.Revision), WithoutSources: withoutSources,
		}, grpc.MaxCallRecvMsgSize(maxMessage))
		if err != nil {
			yield(nil, wire.FromStatus(err))
			return
		}
		receive(stream.Recv, yield)
	}
}

// FetchSources implements Registry.
func (r RPC) FetchSources(ctx context.Context, digests []script.Digest) iter.Seq2[*scriptv1.Source, error] {
	return func(yield func(*scriptv1.Source, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		req := &registryv1.FetchSourcesRequest{Digests: make([][]byte, 0, len(digests))}
		for _, d := range digests {
			req.Digests = append(req.Digests, wire.FromDigest(d))
		}
		stream, err := r.client.FetchSources(ctx, req, grpc.MaxCallRecvMsgSize(maxMessage))
		if err != nil {
			yield(nil, wire.FromStatus(err))
			return
		}
		receive(stream.Recv, func(resp *registryv1.FetchSourcesResponse, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			for _, src := range resp.GetSources() {
				if !yield(src, nil) {
					return false
				}
			}
			return true
		})
	}
}

// receive yields what a stream sends until it ends.
func receive[T any](recv func() (*T, error), yield func(*T, error) bool) {
	for {
		m, err := recv()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			yield(nil, wire.FromStatus(err))
			return
		case !yield(m, nil):
			return
		}
	}
}
