package rpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/access"
	"github.com/scriptorium-dev/scriptorium/script"
)

// grantsBytes is about how large a window of subjects is.
const grantsBytes = 2 << 20

// ListGrants is for those that could change everything: names of subjects are of persons.
func (*registryService) ListGrants(ctx context.Context, m *registryv1.ListGrantsRequest) (*registryv1.ListGrantsResponse, error) {
	if err := access.FromContext(ctx).CheckAll(access.Admin, script.Selector{}); err != nil {
		return nil, err
	}
	if tenant := m.GetTenant(); tenant != "" {
		if err := script.ValidateLabel("tenant", tenant); err != nil {
			return nil, err
		}
	}
	words, err := words(m.GetSearch())
	if err != nil {
		return nil, err
	}
	from, most, err := window(m.GetOffset(), m.GetLimit())
	if err != nil {
		return nil, err
	}
	policy, _ := ctx.Value(policyKey{}).(*access.Policy)
	if policy == nil {
		return &registryv1.ListGrantsResponse{NoPolicy: true}, nil
	}
	found := slices.DeleteFunc(policy.Subjects(time.Now()), func(s access.Subject) bool {
		return m.GetTenant() != "" && !s.Reaches(m.GetTenant()) || slices.ContainsFunc(words, func(word string) bool { return !s.Has(word) })
	})
	resp := &registryv1.ListGrantsResponse{Total: int32(len(found))}
	from = min(from, len(found))
	bytes := 0
	for _, s := range found[from:min(len(found), from+most)] {
		subject := fromSubject(&s)
		if bytes += proto.Size(subject); bytes > grantsBytes && len(resp.Subjects) > 0 {
			break
		}
		resp.Subjects = append(resp.Subjects, subject)
	}
	return resp, nil
}

func fromSubject(s *access.Subject) *registryv1.PolicySubject {
	m := &registryv1.PolicySubject{
		Name: s.Name, Grants: fromGrants(s.Grants), Agent: s.Agent, ExpiredTokens: int32(s.Expired),
		Certificates: int32(s.Certificates), Tokens: int32(s.Tokens), Jwts: int32(s.JWTs), Users: int32(s.Users),
	}
	if !s.NextExpiry.IsZero() {
		m.NextExpiry = timestamppb.New(s.NextExpiry)
	}
	return m
}

func fromGrants(grants []access.Grant) (list []*registryv1.CallerGrant) {
	for _, g := range grants {
		grant := &registryv1.CallerGrant{Tenants: g.Tenants.Globs()}
		for _, role := range g.Roles {
			grant.Roles = append(grant.Roles, string(role))
		}
		list = append(list, grant)
	}
	return list
}
