package inside

import (
	"context"

	"github.com/scriptorium-dev/scriptorium/agent/tryout"
	"github.com/scriptorium-dev/scriptorium/agent/worker/link"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Try implements workerv1.WorkerServer. If the process ends meanwhile, no published script is to blame. What has the source of
// one in quarantine does not run, and nothing runs beside suspects.
func (s *service) Try(ctx context.Context, req *workerv1.TryRequest) (*workerv1.TryResponse, error) {
	m := req.GetScript()
	if m.GetTenant() != s.assignment.GetTenant() {
		return nil, wire.ToStatus(script.Errorf(script.Internal, "tenant", "this process does not run scripts of tenant %.80q", m.GetTenant()))
	}
	if err := s.executor.mayTryOut(m.GetSource()); err != nil {
		return nil, wire.ToStatus(err)
	}
	slot := s.page.Enter(link.MarkUnpublished())
	defer s.page.Leave(slot)
	found, err := tryout.Run(ctx, s.plain, m)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	return &workerv1.TryResponse{Run: found.Run, Results: found.Results}, nil
}
