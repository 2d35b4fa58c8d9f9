package registry

import (
	"context"
	"errors"
	"log/slog"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Projection is a view of the releases that is kept up to date by Follow, which
// calls it from one goroutine.
type Projection interface {
	// Reset says that these are all live releases, as of the head.
	Reset(fleet string, head script.Revision, releases []script.Release)
	// Apply says what became of some releases, up to t.Revision.
	Apply(t Transaction)
}

// Follow keeps p up to date with the store until ctx is done. It starts anew,
// after a pause, when the store cannot be reached.
func Follow(ctx context.Context, store Store, p Projection, log *slog.Logger) {
	f := follower{store: store, projection: p}
	pause := backoff{}
	for ctx.Err() == nil {
		err := f.follow(ctx, &pause)
		if ctx.Err() != nil {
			return
		}
		wait := pause.next()
		log.Warn("following the store starts again", "error", err, "position", f.position, "pause", wait)
		if !sleep(ctx, wait) {
			return
		}
	}
}

type follower struct {
	store      Store
	projection Projection
	position   script.Revision
	begun      bool
}

func (f *follower) follow(ctx context.Context, pause *backoff) error {
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	pause.reset()
	for t, err := range f.store.Watch(ctx, f.position) {
		if err != nil {
			return err
		}
		f.projection.Apply(t)
		f.position = t.Revision
	}
	return errors.New("the watch ended")
}

func (f *follower) catchUp(ctx context.Context) error {
	fleet, err := f.store.Fleet(ctx)
	if err != nil {
		return err
	}
	changes, err := f.store.Changes(ctx, f.position)
	if err != nil {
		return err
	}
	var releases []script.Release
	for release, err := range changes.Releases {
		if err != nil {
			return err
		}
		releases = append(releases, release)
	}
	switch {
	case changes.Full || !f.begun:
		f.projection.Reset(fleet, changes.Head, releases)
	case changes.Head > f.position:
		f.projection.Apply(Transaction{Revision: changes.Head, Releases: releases})
	}
	f.position, f.begun = changes.Head, true
	return nil
}
