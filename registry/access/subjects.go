package access

import (
	"slices"
	"strings"
	"time"
)

// Subject is what may be told of a subject of a policy: nothing by which a caller could be taken for it.
type Subject struct {
	Name   string
	Grants []Grant // not to be changed
	// By how many things of each kind the policy knows it.
	Certificates, Tokens, JWTs, Users int
	// Expired is how many of the tokens have expired, and NextExpiry when the next of the others does; zero if none does.
	Expired    int
	NextExpiry time.Time
	Agent      bool // it can be an agent
}

// Subjects returns the subjects in the order of their names, as they are at the time now.
func (p *Policy) Subjects(now time.Time) []Subject {
	list := make([]Subject, 0, len(p.subjects))
	for i := range p.subjects {
		of := &p.subjects[i]
		s := Subject{
			Name: of.name, Grants: of.grants, Certificates: len(of.certificates), Tokens: len(of.tokens), JWTs: len(of.jwts), Users: len(of.uids),
			Agent: len(of.agents) > 0 || !p.namesAgents,
		}
		for _, t := range of.tokens {
			switch {
			case t.expires.IsZero():
			case !now.Before(t.expires):
				s.Expired++
			case s.NextExpiry.IsZero() || t.expires.Before(s.NextExpiry):
				s.NextExpiry = t.expires
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Subject) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Has reports whether the name, a role or a glob of the tenants has the word, which is in lower case. "*" is what a grant
// for all tenants has.
func (s *Subject) Has(word string) bool {
	return strings.Contains(strings.ToLower(s.Name), word) || slices.ContainsFunc(s.Grants, func(g Grant) bool {
		return g.Tenants.All() && word == "*" ||
			slices.ContainsFunc(g.Roles, func(r Role) bool { return strings.Contains(string(r), word) }) ||
			slices.ContainsFunc(g.Tenants.Globs(), func(glob string) bool { return strings.Contains(glob, word) })
	})
}

// Reaches reports whether the subject has a grant for the tenant.
func (s *Subject) Reaches(tenant string) bool {
	return slices.ContainsFunc(s.Grants, func(g Grant) bool { return g.Tenants.Matches(tenant) })
}
