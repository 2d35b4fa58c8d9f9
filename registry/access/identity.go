// Package access authorizes the callers of a registry: identities with their roles,
// and the policy that grants them.
package access

import (
	"slices"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Role is what an identity may do with the scripts of some tenants. Each allows
// Read as well.
type Role string

// The roles.
const (
	// Read allows to see scripts, sources, history and status, and to follow them.
	Read Role = "read"
	// Publish allows new versions and settings.
	Publish Role = "publish"
	// Release allows to choose what runs: pin, roll back, hold, release, enable, disable,
	// and promote, abort or retry a candidate.
	Release Role = "release"
	// Admin allows everything: also to delete, to go past owners, to export, to
	// import, and to read the audit trail.
	Admin Role = "admin"
)

// Grant gives roles for the tenants that the selector selects.
type Grant struct {
	Roles   []Role
	Tenants script.Selector
}

// Identity is who asks. It is immutable. The zero Identity may nothing.
type Identity struct {
	// Name as in the policy; it stands in the audit trail.
	Name string
	// Subject is Name without what a token says of its holder: all holders of tokens that one
	// subject of the policy stands for have it in common. Bounds are those of a subject.
	Subject string
	// Peer is where the request comes from: an address, or "unix".
	Peer   string
	Grants []Grant
	// Agents are the names of agents that i can be; with AnyAgent, it can be any.
	Agents   []AgentName
	AnyAgent bool
	// Expires is when the token or certificate ends; zero: never.
	Expires time.Time
}

// Everybody returns the identity of a registry that does not ask who asks: it may
// everything.
func Everybody(peer string) Identity {
	return Identity{Name: "anonymous", Subject: "anonymous", Peer: peer, Grants: []Grant{{Roles: []Role{Admin}}}, AnyAgent: true}
}

// Allows reports whether i has the role for the tenant.
func (i Identity) Allows(role Role, tenant string) bool {
	return slices.ContainsFunc(i.Grants, func(g Grant) bool { return g.gives(role) && g.Tenants.Matches(tenant) })
}

// AllowsAll reports whether i has the role for every tenant that the selector
// selects. Each of its globs may be covered by another grant; it may say no where it
// takes several globs of grants to cover one.
func (i Identity) AllowsAll(role Role, tenants script.Selector) bool {
	if tenants.All() {
		return i.covers(role, tenants)
	}
	for _, glob := range tenants.Globs() {
		part, err := script.ParseSelector([]string{glob})
		if err != nil || !i.covers(role, part) {
			return false
		}
	}
	return true
}

// covers reports whether one grant gives the role for all that the selector selects.
func (i Identity) covers(role Role, tenants script.Selector) bool {
	return slices.ContainsFunc(i.Grants, func(g Grant) bool { return g.gives(role) && tenants.Within(g.Tenants) })
}

// AllowsAny reports whether i has the role for some tenant, whichever.
func (i Identity) AllowsAny(role Role) bool {
	return slices.ContainsFunc(i.Grants, func(g Grant) bool { return g.gives(role) })
}

// Check returns a Denied error that says which role is missing, unless i has it for
// the tenant.
func (i Identity) Check(role Role, tenant string) error {
	if i.Allows(role, tenant) {
		return nil
	}
	return script.Errorf(script.Denied, "tenant", "%s has no role %s for the tenant %.80q: ask whoever keeps the registry's access policy for it", i.Name, role, tenant)
}

// CheckAll is Check for every tenant that the selector selects.
func (i Identity) CheckAll(role Role, tenants script.Selector) error {
	if i.AllowsAll(role, tenants) {
		return nil
	}
	which := "the tenants " + tenants.String()
	if tenants.All() {
		which = "all tenants"
	}
	return script.Errorf(script.Denied, "tenant", "%s has no role %s for %.200s: ask whoever keeps the registry's access policy for it", i.Name, role, which)
}

// CheckAgent returns a Denied error unless i can be the agent with the name.
func (i Identity) CheckAgent(name string) error {
	if i.AnyAgent || slices.ContainsFunc(i.Agents, func(n AgentName) bool { return n.Matches(name) }) {
		return nil
	}
	return script.Errorf(script.Denied, "agent", "%s cannot be the agent %.80q: add the name to its agents in the registry's access policy, or start agentd with another --name", i.Name, name)
}

func (g Grant) gives(role Role) bool {
	return slices.Contains(g.Roles, role) || slices.Contains(g.Roles, Admin) ||
		role == Read && len(g.Roles) > 0
}
