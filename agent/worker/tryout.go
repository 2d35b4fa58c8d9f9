package worker

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// TryOut runs a script that is not published in the process of its tenant. Isolated is false, and nothing has run, if the
// tenant has no process.
func (p *Pool) TryOut(ctx context.Context, m *eventv1.TryScript) (found *tryout.Answer, isolated bool, err error) {
	t, err := p.find(m.GetTenant())
	if t == nil || err != nil {
		return nil, false, err
	}
	found, err = t.tryOut(ctx, m)
	return found, true, err
}
