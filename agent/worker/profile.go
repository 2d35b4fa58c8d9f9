package worker

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// Profile is what the process of a tenant says of where calls of a script spend their instructions.
type Profile struct {
	Parts      []*eventv1.ScriptProfile
	OtherCalls uint64 // of versions that are not in Parts
}

// Profile profiles a script in the process of its tenant until the time is up or stop is closed. It
// returns nil if the tenant has no process.
func (p *Pool) Profile(ctx context.Context, spec profile.Spec, stop <-chan struct{}) (*Profile, error) {
	t := (*p.byName.Load())[spec.Script.Tenant]
	if t == nil {
		return nil, nil
	}
	return t.profile(ctx, spec, stop)
}
