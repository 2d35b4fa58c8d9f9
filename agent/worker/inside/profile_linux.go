package inside

import (
	"context"
	"slices"

	"github.com/scriptorium-dev/scriptorium/agent/profile"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Profile implements workerv1.WorkerServer.
func (s *service) Profile(ctx context.Context, req *workerv1.ProfileRequest) (*workerv1.ProfileResponse, error) {
	running, err := s.profiles.Start(profile.Spec{
		Script: s.name(req.GetScript()), Version: req.GetVersion(), ID: req.GetId(), Duration: req.GetDuration().AsDuration(),
	})
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	result := running.Wait(ctx)
	return &workerv1.ProfileResponse{Parts: slices.Collect(result.Parts()), OtherCalls: result.OtherCalls}, nil
}

// EndProfile implements workerv1.WorkerServer.
func (s *service) EndProfile(_ context.Context, req *workerv1.EndProfileRequest) (*workerv1.EndProfileResponse, error) {
	return &workerv1.EndProfileResponse{Ended: s.profiles.End(s.name(req.GetScript()), req.GetId())}, nil
}

// name returns the name of a script of the tenant.
func (s *service) name(of string) script.Name {
	return script.Name{Tenant: s.assignment.GetTenant(), Script: of}
}
