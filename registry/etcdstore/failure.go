package etcdstore

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// failure returns the *script.Error for what the etcd client returned; ctx is
// the caller's.
func (s *Store) failure(ctx context.Context, what string, err error) error {
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
		return script.Errorf(script.Unavailable, "", "%s: %w", what, cause)
	}
	code := status.Code(err)
	if known, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = known.Code()
	}
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return script.Errorf(script.Unavailable, "", "%s: etcd has compacted what was asked for: start again from a snapshot: %w", what, registry.ErrForgotten)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return script.Errorf(script.Invalid, "", "%s: etcd refuses a request of this size: raise etcd's --max-request-bytes to 1.5 MiB or more: %w", what, err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return script.Errorf(script.Unavailable, "", "%s: etcd at %s has reached its quota and takes no writes: compact and defragment it, then disarm its alarm; agents go on with what they have: %w", what, s.endpoints, err)
	case code == codes.PermissionDenied || code == codes.Unauthenticated || errors.Is(err, rpctypes.ErrAuthFailed):
		return script.Errorf(script.Unavailable, "", "%s: etcd at %s refuses us: check the user and the role that its prefix needs: %w", what, s.endpoints, err)
	}
	return script.Errorf(script.Unavailable, "", "%s: etcd at %s did not answer: check that it runs, has a leader and can be reached from here: %w", what, s.endpoints, s.trouble.of(err))
}
