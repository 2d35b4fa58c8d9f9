package agent

import (
	"context"
	"errors"
	"log/slog"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/store"
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

// Source implements cache.Sources.
func (s *sources) Source(ctx context.Context, d script.Digest) ([]byte, error) {
	content, err := s.store.Source(d)
	if err == nil || !errors.Is(err, store.ErrMissing) {
		return content, err
	}
	if !s.store.Retains(d) { // the release that asks was replaced meanwhile
		return nil, script.Errorf(script.NotFound, "version", "it is not retained any more")
	}
	got, err := follow.Fetch(ctx, s.registry, []script.Digest{d}, func(err error) {
		s.log.Warn("the registry sent a source that cannot be used; it is ignored", "error", err)
	})
	content, here := got[d]
	switch {
	case err != nil && !here:
		return nil, err
	case !here:
		return nil, script.Errorf(script.Unavailable, "", "what it needs is not on this agent and the registry did not send %v", d)
	}
	if err := s.store.PutSources([]store.Source{{Digest: d, Content: content}}); err != nil {
		s.log.Warn("a fetched source cannot be stored; it is fetched again when it is needed", "digest", d.String(), "error", err)
	}
	return content, nil
}
