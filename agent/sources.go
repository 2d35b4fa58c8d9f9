package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/store"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sources come from disk, and from the registry when they are not there: those
// of retained versions that never were active here, and those that were lost.
type sources struct {
	store    *store.Store
	registry follow.Registry
	log      *slog.Logger
}

var _ cache.Sources = (*sources)(nil)

// fetchTimeout bounds a fetch, which goes on when the call that wanted it has
// given up: the next one finds it here.
const fetchTimeout = 5 * time.Second

// Source implements cache.Sources.
func (s *sources) Source(ctx context.Context, d script.Digest) ([]byte, error) {
	content, err := s.store.Source(d)
	if err == nil || !errors.Is(err, store.ErrMissing) {
		return content, err
	}
	if !s.store.Retains(d) { // the release that asks was replaced meanwhile
		return nil, script.Errorf(script.NotFound, "version", "it is not retained any more")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	for src, err := range s.registry.FetchSources(ctx, []script.Digest{d}) {
		if err != nil {
			return nil, script.Errorf(script.Unavailable, "", "its source is not on this agent and the registry cannot be reached for it: %w", err)
		}
		got, err := wire.ToDigest(src.GetDigest())
		if err != nil || got != d || script.DigestOf(src.GetContent()) != d {
			return nil, script.Errorf(script.Unavailable, "", "its source is not on this agent and the registry sent another one for %v", d)
		}
		if err := s.store.PutSources([]store.Source{{Digest: d, Content: src.GetContent()}}); err != nil {
			s.log.Warn("a fetched source cannot be stored; it is fetched again when it is needed", "digest", d.String(), "error", err)
		}
		return src.GetContent(), nil
	}
	return nil, script.Errorf(script.Unavailable, "", "its source is not on this agent and the registry does not have %v any more", d)
}
