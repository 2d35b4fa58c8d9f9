package fleet

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/scriptorium-dev/scriptorium/script"
)

const tooOldForAudits = "the audit of the tenant is strict, and the agent answers its calls without a record: upgrade agentd"

// audit notes whether the audit of the tenant is strict.
func (f *Fleet) audit(t *script.Tenant) {
	if t.Deleted || t.Settings.Audit != script.AuditStrict {
		delete(f.audits, t.Name)
		return
	}
	f.audits[t.Name] = t.Revision
}

// unaudited yields the tenants with a strict audit whose calls the agent answers without a record, and the revisions
// of their settings. An agent that answers queries knows audits. Of one that is only remembered, nobody knows that.
func (f *Fleet) unaudited(a *agent) iter.Seq2[string, script.Revision] {
	return func(yield func(string, script.Revision) bool) {
		if a.report.Queries || a.remembered {
			return
		}
		for tenant, revision := range f.audits {
			if a.report.Tenants.Matches(tenant) && !yield(tenant, revision) {
				return
			}
		}
	}
}

// failuresOf returns some of what the agent fails to do, by the names, and how much it is.
func (f *Fleet) failuresOf(a *agent) (some []Failure, n int) {
	some = a.someFailures()
	n = len(a.failures) - len(some)
	some = f.withAudits(a, some)
	n += len(some)
	return some[:min(len(some), MaxAgentFailures)], n
}

// mostFailures bounds the failures that are reported for one agent, as any number of tenants can have a strict audit.
const mostFailures = 1000

// allFailures returns what the agent fails to do, by the names.
func (f *Fleet) allFailures(a *agent) []Failure {
	all := f.withAudits(a, slices.Collect(maps.Values(a.failures)))
	return all[:min(len(all), mostFailures)]
}

// withAudits adds to the failures what the agent does without a record, and sorts them.
func (f *Fleet) withAudits(a *agent, some []Failure) []Failure {
	for tenant, revision := range f.unaudited(a) {
		some = append(some, Failure{
			Name: script.Name{Tenant: tenant, Script: settingsName}, Revision: revision,
			Err: script.Errorf(script.Unavailable, "audit", tooOldForAudits),
		})
	}
	slices.SortFunc(some, func(a, b Failure) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
	return some
}
