package fleet

import (
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Report is what an agent says of itself. The fleet keeps what it points to.
type Report struct {
	Fleet       string
	Agent       string
	Incarnation string // made at each start of the agent
	// Session is the number of the session that the report came in. A later incarnation of an
	// agent has no lower one.
	Session  script.Revision
	Identity string // of the agent in the access policy
	Sequence uint64 // counts up within an incarnation
	Labels   map[string]string
	// Selects: it runs candidates that select it by its labels. An older agent does not.
	Selects bool
	// Sets: it runs candidates of change sets. An older agent does not.
	Sets bool
	// Keys: it knows steps by key. An older agent does not.
	Keys bool
	// Shadows: it knows shadow steps. An older agent does not.
	Shadows bool
	// Queries: it answers queries. An older agent does not.
	Queries  bool
	Software string
	// Activated: every release up to here is live, but for the failures and the lags.
	Activated script.Revision
	// Activations are when that was, lately: in the order of the revisions.
	Activations []Activation
	Failures    []Failure
	// Lags are the tenants whose own process lacks releases, each with a revision that these are above.
	Lags     map[string]script.Revision
	Leaving  bool            // the registry forgets the agent, and does not wait for it
	Tenants  script.Selector // that it follows
	DiskKeys []string        // the ids of the keys that what is on its disk is signed by
	Held     string          // why it keeps what the registry says is gone; "" if it does not
	Drifts   uint64          // how often it differed from the registry's checksum, since its start
	// RepairedDrifts is how many differences it repaired since then. One counts once here, and in Drifts
	// each time that it is found. An older agent has none.
	RepairedDrifts uint64
	Trials         []Trial // of candidates; what is beyond MaxTrials counts for nothing
	Usage          *Usage  // of calls; nil for none. The fleet hands it on
	Disk           *Disk   // nil if the agent is too old to say how it is
}

// Disk is how the disk with the state of an agent is.
type Disk struct {
	Free, Size         uint64 // bytes
	Fault              string // why it cannot be written; "" if it can
	Corrupt, Untrusted uint32 // files that the agent did not believe at its last start
}

// Usage is what the calls of tenants used on an agent since it reported that last. The agent reports each several times.
type Usage struct {
	Sequence   uint64        // counts up within an incarnation
	Repeated   bool          // it was reported before
	Covers     time.Duration // in which the calls ran
	Processors int           // of the agent's machine
	Tenants    []script.TenantUsage
}

// fails reports whether the disk is known not to be writable.
func (d *Disk) fails() bool { return d != nil && d.Fault != "" }

// Activation says since when a revision, and what is below it, has been live on an
// agent.
type Activation struct {
	Revision script.Revision
	Ago      time.Duration // before the report was sent
}

// Failure is a release, or another object, that an agent could not make live.
type Failure struct {
	Name     script.Name     // as FailureName returns it
	Revision script.Revision // of the object that failed
	Err      *script.Error
}

// The names of failures that are not of scripts. No script can be called so.
const (
	valueName    = "kv:" // and the key
	settingsName = "tenant:settings"
)

// FailureName returns the name that the failure of the object with the key goes by: that of
// the script; of a value the tenant's with "kv:" and the value's key; of a tenant's
// settings the tenant's with "tenant:settings". ok is false for an object of a kind that
// is not known here.
func FailureName(key string) (name script.Name, ok bool, err error) {
	kind, path, _ := strings.Cut(key, "/")
	switch script.ObjectKind(kind) {
	case script.Releases:
		name, err = script.ParseName(path)
		return name, true, err
	case script.Values:
		value, err := script.ParseValueKey(path)
		return script.Name{Tenant: value.Tenant, Script: valueName + value.Key}, true, err
	case script.Tenants:
		return script.Name{Tenant: path, Script: settingsName}, true, script.ValidateLabel("tenant", path)
	}
	return script.Name{}, false, nil
}

// ParseFailureName reads the text of a name that FailureName returned.
func ParseFailureName(text string) (script.Name, error) {
	tenant, of, _ := strings.Cut(text, "/")
	key := string(script.Releases) + "/" + text
	if value, ok := strings.CutPrefix(of, valueName); ok {
		key = string(script.Values) + "/" + tenant + "/" + value
	} else if of == settingsName {
		key = string(script.Tenants) + "/" + tenant
	}
	name, _, err := FailureName(key)
	return name, err
}

// agent is the last that was heard of an agent.
type agent struct {
	report   Report // the last; its Failures are in failures, and its Trials in trials and early
	before   []string
	failures map[script.Name]Failure
	trials   []*candidacy // that have taken in what it says of them
	early    []Trial      // of candidates that are not known here yet
	group    *group
	identity string    // as counted in Fleet.usage, with
	size     int       // of what it reports,
	kept     int       // and of what candidacies keep of what it counted
	slot     int       // its bit in each slots, and its place in Fleet.bySlot
	moved    time.Time // when it was heard that it activated what it has
	heard    time.Time
	missed   time.Time // since when it is not heard any more
	unknown  bool
	presence presence // what was last seen of it
	// remembered: nothing was heard of it here, another replica did; or this one,
	// before it was started anew.
	remembered bool
}

// who returns the agent as releases select it.
func (r *Report) who() script.Agent {
	who := script.Agent{Name: r.Agent}
	if r.Selects {
		who.Labels = r.Labels
	}
	return who
}

// rememberedIncarnations is how many earlier incarnations the fleet knows of an agent.
const rememberedIncarnations = 4

// take replaces what is known of the agent by what it reports.
func (a *agent) take(r Report, now time.Time) {
	if a.report.Incarnation != r.Incarnation && a.report.Incarnation != "" {
		a.before = append(a.before, a.report.Incarnation)
		a.before = a.before[max(0, len(a.before)-rememberedIncarnations):]
	}
	if a.unknown || a.report.Activated != r.Activated {
		a.moved = now
	}
	a.report, a.heard, a.remembered = r, now, false
	a.report.Failures, a.report.Trials = nil, nil
}

// live is since when the revision has been live on the agent, which has activated
// it: as it says itself, or else when it was first heard.
func (a *agent) live(r script.Revision) time.Time {
	for _, activation := range a.report.Activations {
		if activation.Revision >= r {
			return a.heard.Add(-min(max(activation.Ago, 0), maxAgo))
		}
	}
	return a.moved
}

// maxAgo bounds what an agent may say.
const maxAgo = 10 * time.Second

// couldNot reports whether the agent failed to activate the release, or what came
// after it: such an agent runs neither.
func (a *agent) couldNot(r *script.Release) bool {
	failure, ok := a.failures[r.Name]
	return ok && failure.Revision >= r.Revision
}

// latestFailures is the last failure of each script among them.
func latestFailures(failures []Failure) map[script.Name]Failure {
	if len(failures) == 0 {
		return nil
	}
	latest := make(map[script.Name]Failure, len(failures))
	for _, failure := range failures {
		if known, ok := latest[failure.Name]; !ok || failure.Revision > known.Revision {
			latest[failure.Name] = failure
		}
	}
	return latest
}
