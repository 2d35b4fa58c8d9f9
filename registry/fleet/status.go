package fleet

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/registry"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Filter says which scripts a status is of.
type Filter struct {
	Tenant string // all tenants if empty
	Script string // all scripts of the tenant if empty
	// Readable, if not nil, says of which tenants the status may be.
	Readable func(tenant string) bool
	// After the script with this name as text, "tenant/name", alone.
	After string
	// Limit is the greatest number of scripts; none if 0.
	Limit int
	// Caller is who asks: many requests of one caller do not hold up those of others.
	Caller string
}

// Status is the fleet and the scripts that were asked for, at one moment.
type Status struct {
	Fleet     string
	Head      script.Revision
	Connected int            // agents
	Unknown   int            // agents that are unheard for too long
	Scripts   []ScriptStatus // by the names' text
	More      bool           // there are more scripts than the limit
	// Unreadable are the objects whose records cannot be read, of the tenants that were
	// asked for, or of the one script: at most MaxUnreadable, by their keys.
	Unreadable []registry.Unreadable
	// Freeze is that of the registry; nil while it is not frozen. It is not to be changed.
	Freeze *script.Freeze
}

// MaxUnreadable is how many objects a Status names whose records cannot be read.
const MaxUnreadable = 100

// ScriptStatus is how far one release has come.
type ScriptStatus struct {
	Release script.Release
	Desired int // agents that follow the tenant
	// Active are the agents that have activated this release; if it has a candidate,
	// those that run the active version, whether they have heard of the candidate or not.
	Active int
	// Failed are the agents that could not, and run what they had, and those on which
	// the candidate did not pass its tests.
	Failed int
	// Lagging are the agents that activated it while the tenant's process there lacks it. They are
	// neither active nor failed.
	Lagging int
	Unknown int // agents that are unknown
	// Starting are the connected agents that have activated nothing yet, of any script.
	Starting int
	// Converged: every connected agent is active, and there is at least one; not
	// while the agents answer a roll call, nor of a release with a candidate.
	Converged bool
	// Trials are of a release with a candidate, also of one that failed; else nil.
	Trials *Trials
	// Rollout is how it converged; nil until it did, or if that is not known. It is
	// not to be changed.
	Rollout *script.Rollout
	// SlowestAgent was the last, or is still waited for: one that has yet to activate the release
	// before one that lags.
	SlowestAgent string
	Failures     []AgentFailure // at most MaxFailures, by the agents' names
	// Unreadable, if not nil, says that the script's record cannot be read. The release is
	// what it was before, or a tombstone where that is not known.
	Unreadable *registry.Unreadable
}

// MaxFailures is how many failures a ScriptStatus names.
const MaxFailures = 5

// AgentFailure says why an agent could not activate a release, or what test its
// candidate failed there.
type AgentFailure struct {
	Agent string
	Err   *script.Error
}

// isGone reports whether the script was deleted.
func (f *Fleet) isGone(p *progress) bool {
	return p.release.Deleted && f.unreadableScript(p.release.Name) == nil
}

// Status returns the status of the scripts. A deleted script is among them only
// if it is asked for by its name.
func (f *Fleet) Status(filter Filter) Status {
	s, _ := f.StatusFor(context.Background(), filter) // which does not end
	return s
}

// StatusFor returns what Status does, unless ctx ends before it is the caller's turn.
func (f *Fleet) StatusFor(ctx context.Context, filter Filter) (s Status, err error) {
	err = f.read(ctx, filter.Caller, func() { s = f.status(&filter) })
	return s, err
}

func (f *Fleet) status(filter *Filter) Status {
	f.gathered(f.now())
	s := f.overview(filter)
	chosen := f.chosen(filter)
	if filter.Limit > 0 && len(chosen) > filter.Limit {
		chosen, s.More = chosen[:filter.Limit], true
	}
	s.Scripts = f.statuses(chosen)
	return s
}

// overview returns the status without scripts.
func (f *Fleet) overview(filter *Filter) Status {
	s := Status{
		Fleet: f.id, Head: f.head, Connected: f.connected, Unknown: len(f.agents) - f.connected,
		Unreadable: f.unreadableOf(filter),
	}
	if f.freeze.On(f.now()) {
		s.Freeze = new(f.freeze)
	}
	return s
}

func (f *Fleet) statuses(chosen []*progress) []ScriptStatus {
	list, all := make([]ScriptStatus, 0, len(chosen)), &survey{fleet: f}
	for _, p := range chosen {
		list = append(list, f.scriptStatus(p, all))
	}
	return list
}

// unreadableOf returns the objects whose records cannot be read, as Status has them.
func (f *Fleet) unreadableOf(filter *Filter) []registry.Unreadable {
	var found []registry.Unreadable
	for _, u := range f.unreadable {
		tenant := u.TenantName()
		name, _ := u.Script()
		if (filter.Tenant == "" || tenant == filter.Tenant) && (filter.Script == "" || name.Script == filter.Script) &&
			(filter.Readable == nil || filter.Readable(tenant)) {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b registry.Unreadable) int { return strings.Compare(a.Key, b.Key) })
	return found[:min(len(found), MaxUnreadable)]
}

// behind reports whether a is further behind than b; of two that are not, it is the
// one with the lesser name.
func (a *agent) behind(b *agent) bool {
	if a.report.Activated != b.report.Activated {
		return a.report.Activated < b.report.Activated
	}
	return a.report.Agent < b.report.Agent
}

// chosen returns what the filter lets through, by the names' text: one more than the limit if there are more.
func (f *Fleet) chosen(filter *Filter) []*progress {
	if filter.Script != "" {
		p := f.scripts[script.Name{Tenant: filter.Tenant, Script: filter.Script}]
		if p == nil || filter.Readable != nil && !filter.Readable(filter.Tenant) {
			return nil
		}
		return []*progress{p}
	}
	var chosen []*progress
	all := choice{tenant: filter.Tenant, readable: filter.Readable, after: filter.After}
	all.each(f.catalog.merged(), func(p *progress) bool {
		if !f.isGone(p) {
			chosen = append(chosen, p)
		}
		return filter.Limit <= 0 || len(chosen) <= filter.Limit
	})
	return chosen
}

func (f *Fleet) scriptStatus(p *progress, all *survey) ScriptStatus {
	s := ScriptStatus{Release: p.release, Active: f.reachedBy(p), Rollout: p.rollout}
	connected := 0
	for _, g := range f.followers(p.release.Name.Tenant) {
		s.Desired += g.known
		connected += g.levels.total()
		s.Starting += g.levels.empty()
	}
	s.Unknown = s.Desired - connected
	c := f.candidacies[p.release.Name]
	both := f.countFailures(p, c, &s, all)
	s.Converged = !f.gathering && connected > 0 && s.Active == connected
	if s.Unreadable = f.unreadableScript(p.release.Name); s.Unreadable != nil {
		s.Converged = false
	}
	if c != nil {
		s.addTrials(c, f.running(p, c, c.members, all), both)
		s.Active = f.active(p, s.Trials.Running-f.running(p, c, c.keyed, all)) // which run both
		s.Trials.Waiting, s.Trials.WaitingFor = f.waiting(p, c, all)
		s.Trials.WaitingWhy = f.waitingWhy(p, c, s.Trials.WaitingFor)
		if f.moves(p) {
			s.Trials.Why, s.Trials.Evidence = f.cfg.Judge(f.candidacy(c, p, all))
			if s.Trials.Why == "" {
				s.Trials.Why = f.restWaits(c.name, p.release.Candidate.Set, all)
			}
		}
	}
	if s.Converged {
		if p.rollout != nil {
			s.SlowestAgent = p.rollout.SlowestAgent
		}
		return s
	}
	var last *agent
	for _, g := range f.followers(p.release.Name.Tenant) {
		if g.lowest() < p.release.Revision {
			if a := all.lastOf()[g]; last == nil || a.behind(last) {
				last = a
			}
		}
	}
	if last != nil {
		s.SlowestAgent = last.report.Agent
	}
	return s
}

// countFailures adds what agents failed, and where processes lag, and takes it from what they
// activated. It returns on how many of those the tests of the candidate failed as well; c is nil if
// there is none.
func (f *Fleet) countFailures(p *progress, c *candidacy, s *ScriptStatus, all *survey) (both int) {
	lacks := all.lacksOf(&p.release)
	lagging := lacks.count(p.release.Revision)
	for a := range f.failing[p.release.Name] {
		if !a.couldNot(&p.release) || !a.group.selector.Matches(p.release.Name.Tenant) {
			continue
		}
		if a.report.Activated >= p.release.Revision {
			s.Active--
			if a.lags(&p.release) {
				lagging--
			}
		}
		s.Failed++
		if c != nil && c.failed[a] != nil {
			both++
		}
		i, _ := slices.BinarySearchFunc(s.Failures, a.report.Agent, byAgent)
		s.Failures = insertFailure(s.Failures, i, AgentFailure{Agent: a.report.Agent, Err: a.failures[p.release.Name].Err})
	}
	if lagging > 0 {
		s.Active, s.Lagging, s.SlowestAgent = s.Active-lagging, lagging, lacks.first(&p.release)
	}
	return both
}

// Reached waits until the releases up to the revision are known here.
func (f *Fleet) Reached(ctx context.Context, revision script.Revision) error {
	for {
		f.mu.Lock()
		if f.id != "" && f.head >= revision {
			f.mu.Unlock()
			return nil
		}
		changed := f.wait()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return script.Errorf(script.Unavailable, "", "this registry has not caught up with revision %d: %w", revision, ctx.Err())
		}
	}
}

// A watch brings changes at most fifty times a second, and less often if it is of many
// scripts.
const (
	watchInterval    = 20 * time.Millisecond
	scriptsPerSecond = 10_000
)

// Watch yields the status at once, and again after each change, at most fifty
// times a second and 10,000 scripts a second, until ctx is done.
func (f *Fleet) Watch(ctx context.Context, filter Filter) iter.Seq[Status] {
	return func(yield func(Status) bool) {
		pace := time.NewTimer(0)
		defer pace.Stop()
		for {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return
			}
			var changed <-chan struct{}
			var status Status
			if f.read(ctx, filter.Caller, func() { changed, status = f.wait(), f.status(&filter) }) != nil {
				return
			}
			pace.Reset(max(watchInterval, time.Duration(len(status.Scripts))*time.Second/scriptsPerSecond))
			if !yield(status) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// wait returns what is closed at the next change.
func (f *Fleet) wait() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// touch tells all who wait that something changed.
func (f *Fleet) touch() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}
