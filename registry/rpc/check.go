package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/access"
)

// About is the edition of a registry, and how the parts are that it needs.
type About struct {
	Software string
	Parts    []Part
}

// Part is something that the registry needs. Fault says what is wrong and what to do; "" for nothing.
type Part struct{ Name, Fault string }

func (s *registryService) Check(ctx context.Context, _ *registryv1.CheckRequest) (*registryv1.CheckResponse, error) {
	who := access.FromContext(ctx)
	resp := &registryv1.CheckResponse{Now: timestamppb.New(time.Now()), Caller: who.Name}
	if s.about != nil {
		about := s.about(ctx)
		resp.Software = about.Software
		for _, p := range about.Parts {
			resp.Parts = append(resp.Parts, &registryv1.RegistryPart{Name: p.Name, Fault: p.Fault})
		}
	}
	if !who.Expires.IsZero() {
		resp.Expires = timestamppb.New(who.Expires)
	}
	resp.Grants = fromGrants(who.Grants)
	return resp, nil
}
