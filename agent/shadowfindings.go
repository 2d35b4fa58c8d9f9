package agent

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/scriptorium-dev/scriptorium/agent/answer"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// shadowFindings answers a query for what was found in the shadow of calls of a candidate.
func (a *Agent) shadowFindings(_ context.Context, q *eventv1.Query, send answer.Send) error {
	m := q.GetShadow()
	found := &eventv1.ShadowAnswer{}
	r := a.state.table.Get(script.Name{Tenant: q.GetTenant(), Script: m.GetName()}.String())
	if r != nil && r.Found != nil && r.Candidate.Version.Number == m.GetVersion() && r.Candidate.Attempt == m.GetAttempt() {
		findings := r.Found.Findings()
		found.Calls, found.Findings = wire.FromShadowCalls(r.Found.Read()), wire.FromFindings(&findings)
	}
	for f := found.GetFindings(); q.GetMaxBytes() > 0 && int64(proto.Size(found)) > q.GetMaxBytes()-endBytes; { // of a large fleet
		switch samples, paths := f.GetSamples(), f.GetPaths(); {
		case len(samples) > 0:
			f.Samples = samples[:len(samples)-1]
		case len(paths) > 0:
			f.OtherPaths += paths[len(paths)-1].GetCount()
			f.Paths = paths[:len(paths)-1]
		default:
			return send(&eventv1.Answer{Kind: &eventv1.Answer_Shadow{Shadow: found}})
		}
	}
	return send(&eventv1.Answer{Kind: &eventv1.Answer_Shadow{Shadow: found}})
}
