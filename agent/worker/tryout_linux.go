package worker

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// tryOut has the tenant's process run a script that is not published.
func (t *tenant) tryOut(ctx context.Context, m *eventv1.TryScript) (*tryout.Answer, error) {
	p, err := t.process(ctx)
	for err == nil && !p.enter() { // another one has taken its place meanwhile
		p, err = t.process(ctx)
	}
	if errors.Is(err, errLeft) {
		return nil, script.Errorf(script.Unavailable, "tenant", "the process of tenant %s is being ended: try again", t.name)
	}
	if err != nil {
		return nil, err
	}
	defer p.leave()
	resp, err := p.client.Try(ctx, &workerv1.TryRequest{Script: m}, grpc.MaxCallRecvMsgSize(2*tryout.MaxAnswer))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, script.Errorf(script.Timeout, "", "the time was over before the process of tenant %s answered", t.name)
	case connectionEnded(err): // which is known before the process is reaped
		return nil, &script.Error{
			Kind: script.Unavailable, Field: "tenant", Err: ErrEnded,
			Message: "the process of tenant " + t.name + " ended while it ran the script, and is being replaced: the script may be why, for example because it takes too much memory",
		}
	default:
		return nil, wire.FromStatus(err)
	}
	if resp.GetRun() == nil {
		return nil, errors.New("the process of the tenant answers without saying how it ran the script")
	}
	return &tryout.Answer{Run: resp.GetRun(), Results: resp.GetResults()}, nil
}

// connectionEnded reports whether an error of a call whose context goes on has no other cause than the connection: the process closed
// it, or the agent, since the process has ended. An error with details is an answer of the process.
func connectionEnded(err error) bool {
	st := status.Convert(err)
	return len(st.Details()) == 0 && (st.Code() == codes.Unavailable || st.Code() == codes.Canceled)
}
