package rpc_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/registry/rpc"
)

// TestListGrants checks that an administrator of all tenants sees everybody's roles, and nobody's credentials.
func TestListGrants(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	digests := []string{digestOf(tokenOf("root")), digestOf(tokenOf("old")), digestOf(tokenOf("soon")), digestOf(tokenOf("later"))}
	known := policy(t, `
subjects:
  - {name: root, tokens: [`+digests[0]+`], grants: [{roles: [admin], tenants: ["*"]}]}
  - name: team
    tokens:
      - {digest: "`+digests[1]+`", expires: "2020-01-01T00:00:00Z"}
      - {digest: "`+digests[3]+`", expires: "`+soon.Add(time.Hour).Format(time.RFC3339)+`"}
      - {digest: "`+digests[2]+`", expires: "`+soon.Format(time.RFC3339)+`"}
    certificates: [{commonName: "hidden-*"}]
    uids: [1000, 1001]
    grants: [{roles: [read, release], tenants: [acme, "shop-*"]}, {roles: [publish], tenants: [lab]}]
  - {name: node, certificates: [{commonName: node}], agents: ["{commonName}"], grants: [{roles: [read], tenants: [shop-1]}]}
`)
	g := serveGuarded(t, "tcp", rpc.Authentication{InsecureTokens: true, Policy: known})
	root := registryv1.NewRegistryClient(g.dial(t, insecure.NewCredentials(), withToken(tokenOf("root"))))
	list := func(m *registryv1.ListGrantsRequest) (names string, total int32) {
		t.Helper()
		resp, err := root.ListGrants(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range resp.GetSubjects() {
			names += s.GetName() + " "
		}
		for _, digest := range append(digests, "hidden") {
			if strings.Contains(resp.String(), strings.TrimPrefix(digest, "sha256:")) {
				t.Errorf("%v: it has a secret: %v", m, resp)
			}
		}
		return names, resp.GetTotal()
	}
	for _, test := range []struct {
		m     *registryv1.ListGrantsRequest
		names string
		total int32
	}{
		{&registryv1.ListGrantsRequest{}, "node root team ", 3},
		{&registryv1.ListGrantsRequest{Offset: 1, Limit: 1}, "root ", 3},
		{&registryv1.ListGrantsRequest{Offset: 1 << 30}, "", 3},
		{&registryv1.ListGrantsRequest{Tenant: "shop-1"}, "node root team ", 3},
		{&registryv1.ListGrantsRequest{Tenant: "lab"}, "root team ", 2},
		{&registryv1.ListGrantsRequest{Search: "RELEASE shop"}, "team ", 1},
		{&registryv1.ListGrantsRequest{Search: "od"}, "node ", 1},
		{&registryv1.ListGrantsRequest{Search: "nobody"}, "", 0},
	} {
		if names, total := list(test.m); names != test.names || total != test.total {
			t.Errorf("%v: %q of %d, want %q of %d", test.m, names, total, test.names, test.total)
		}
	}
	resp, err := root.ListGrants(t.Context(), &registryv1.ListGrantsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	node, team := resp.GetSubjects()[0], resp.GetSubjects()[2]
	if !node.GetAgent() || node.GetCertificates() != 1 || team.GetAgent() || team.GetTokens() != 3 || team.GetExpiredTokens() != 1 || !team.GetNextExpiry().AsTime().Equal(soon) ||
		team.GetUsers() != 2 || len(team.GetGrants()) != 2 || strings.Join(team.GetGrants()[0].GetTenants(), " ") != "acme shop-*" || strings.Join(team.GetGrants()[0].GetRoles(), " ") != "read release" {
		t.Errorf("%v\n%v", node, team)
	}
	for _, m := range []*registryv1.ListGrantsRequest{{Offset: -1}, {Limit: -1}, {Tenant: "A"}, {Search: strings.Repeat("x", 201)}} {
		if _, err := root.ListGrants(t.Context(), m); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v, want InvalidArgument", m, err)
		}
	}
	open := newBench(t)
	if resp, err := open.ListGrants(t.Context(), &registryv1.ListGrantsRequest{}); err != nil || !resp.GetNoPolicy() || len(resp.GetSubjects()) != 0 {
		t.Errorf("of a registry that lets everybody in: %v, %v", resp, err)
	}
}
