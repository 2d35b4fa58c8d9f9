package registry

import (
	"context"
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
	f := &projector{store: store, projection: p}
	t := tail{store: store, follower: f, log: log, name: "following the releases"}
	t.run(ctx)
}

// projector is what a projection does with what its tail finds.
type projector struct {
	store      Store
	projection Projection
	position   script.Revision
	begun      bool
}

// begin catches up.
func (p *projector) begin(ctx context.Context) (script.Revision, error) {
	fleet, err := p.store.Fleet(ctx)
	if err != nil {
		return 0, err
	}
	changes, err := p.store.Changes(ctx, p.position)
	if err != nil {
		return 0, err
	}
	var releases []script.Release
	for release, err := range changes.Releases {
		if err != nil {
			return 0, err
		}
		releases = append(releases, release)
	}
	switch {
	case changes.Full || !p.begun:
		p.projection.Reset(fleet, changes.Head, releases)
	case changes.Head > p.position:
		p.projection.Apply(Transaction{Revision: changes.Head, Releases: releases})
	}
	p.position, p.begun = changes.Head, true
	return p.position, nil
}

func (p *projector) apply(_ context.Context, t Transaction) {
	p.projection.Apply(t)
	p.position = t.Revision
}

func (p *projector) began(context.Context, script.Revision)        {}
func (p *projector) ticked(context.Context, script.Revision, bool) {}

// lost needs nothing: begin asks for what changed, not for each change.
func (p *projector) lost() {}
