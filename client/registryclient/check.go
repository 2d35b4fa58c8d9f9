package registryclient

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// Check is what a registry says of itself, and of the caller.
type Check struct {
	Software string
	Now      time.Time // by the registry's clock
	Caller   string    // as the access policy names the caller
	Grants   []Grant
	Expires  time.Time // of the caller's token or certificate; zero for never
	Parts    []Part
}

// Grant is roles that the caller has for the tenants that the globs match; for all without globs.
type Grant struct {
	Roles   []string
	Tenants []string
}

// Part is something that the registry needs. Fault says what is wrong and what to do; "" for nothing.
type Part struct{ Name, Fault string }

// Check asks the registry what it is and who the caller is to it.
func (c *Client) Check(ctx context.Context) (Check, error) {
	resp, err := call(ctx, c, c.registry.Check, &registryv1.CheckRequest{})
	if err != nil {
		return Check{}, err
	}
	check := Check{Software: resp.GetSoftware(), Now: resp.GetNow().AsTime(), Caller: resp.GetCaller()}
	if resp.GetExpires() != nil {
		check.Expires = resp.GetExpires().AsTime()
	}
	for _, g := range resp.GetGrants() {
		check.Grants = append(check.Grants, Grant{Roles: g.GetRoles(), Tenants: g.GetTenants()})
	}
	for _, p := range resp.GetParts() {
		check.Parts = append(check.Parts, Part{Name: p.GetName(), Fault: p.GetFault()})
	}
	return check, nil
}

// IsUnimplemented reports whether the registry does not know the request: it is older than the client.
func IsUnimplemented(err error) bool { return status.Code(err) == codes.Unimplemented }
