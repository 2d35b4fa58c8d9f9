package registryclient

import (
	"context"
	"iter"
	"time"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FleetStatus is the fleet and the selected scripts, at one moment.
type FleetStatus struct {
	Fleet     string // the registry's identity, made once
	Head      script.Revision
	Connected int // agents that are heard of
	Unknown   int // agents that are unheard for too long: what they run is not known
	Scripts   []ScriptStatus
	// Unreadable are objects whose records the registry cannot read, of the tenants, or of
	// the script, that were selected; at most 100.
	Unreadable []Unreadable
	// Freeze is that of the registry; nil while it is not frozen. Its exceptions are
	// empty unless the caller has the role admin for all tenants.
	Freeze *script.Freeze
}

// AgentStatus is one agent, as it last reported.
type AgentStatus struct {
	Name       string
	Foreign    string // the other fleet that it belongs to; "" for one of the registry's
	Labels     map[string]string
	Software   string
	Activated  script.Revision // every release up to here is live, but for failures
	Unknown    bool            // unheard for too long: what it runs is not known
	UnheardFor time.Duration
	Behind     int             // releases above Activated that it follows
	Lag        time.Duration   // since the oldest of those was committed
	Failures   []ScriptFailure // at most ten
	Failed     int             // all of them
	Tenants    script.Selector // that it follows
	DiskKeys   []string        // the ids of the keys that what is on its disk is signed by
	Held       string          // why it keeps what the registry says is gone; "" if it does not
	Drifts     uint64          // how often it differed from the registry's checksum, since its start
}

// ScriptFailure is a release that an agent could not activate.
type ScriptFailure struct {
	Name     script.Name
	Revision script.Revision
	Err      *script.Error
}

// ScriptStatus is how far one release has come.
type ScriptStatus struct {
	// Release is without its config, with as many tests as it has but nothing in them, and
	// with its active version and its candidate alone of the retained ones: Get has them.
	Release script.Release
	Desired int // agents that follow the tenant
	// Active are the agents that have activated this release; if it has a candidate, those
	// that run the active version. Trials.Running are those that run the candidate.
	Active int
	// Failed are the agents that could not, and still run what they had, and those on
	// which the candidate did not pass its tests.
	Failed  int
	Unknown int // agents that are unknown
	// Starting are connected agents that have activated nothing yet, of any script.
	Starting int
	// Lagging are agents that activated it while the tenant's own process there still runs what was
	// before. They are neither active nor failed.
	Lagging int
	// Converged: every connected agent is active, there is at least one, and no candidate.
	Converged bool
	// Took is the time from the commit until the last agent reported it active;
	// 0 when that is not known.
	Took time.Duration
	// Rollout is how it converged; nil until it did, or when that is not known.
	Rollout *script.Rollout
	// SlowestAgent was last, or is still waited for; "" when none is.
	SlowestAgent string
	Failures     []AgentFailure // at most five
	// Trials is what connected agents say of the release's candidate; nil if it has none.
	Trials *Trials
	// Unreadable, if not nil, says that the registry cannot read the script's record. Release
	// is what it was before, or a tombstone where that is not known.
	Unreadable *Unreadable
}

// Trials is what connected agents say of a candidate.
type Trials struct {
	Passed, Failed int // agents on which it passed all tests, and on which it did not
	Running        int // agents that run it, and say so
	// Calls of it on those, and how many of them failed.
	Calls, FailedCalls uint64
	// Shadow is what agents found in a shadow step; nil in any other.
	Shadow *script.ShadowCalls
	// Waiting is the number of agents that it waits for, if it is on its way: they have
	// yet to pass its tests, to activate the release, or to say that they run it.
	Waiting int
	// WaitingFor are the names of the first of them, in order. Those that could not
	// activate the release, for a reason that may pass, are among the failures as well.
	WaitingFor []string // at most five
	// WaitingWhy is what holds up the first of those, if it says so; else "".
	WaitingWhy string
	// Why is what the rollout waits for, in words; "" if its next move is due, and of a registry
	// that is older than this field. Evidence is what speaks for the candidate so far.
	Why, Evidence string
}

// Waiting returns how many connected agents have yet to say that they activated
// the release, or could not.
func (s *ScriptStatus) Waiting() int {
	running := 0
	if s.Trials != nil {
		running = s.Trials.Running
	}
	return max(0, s.Desired-s.Active-running-s.Failed-s.Unknown)
}

// AgentFailure is why an agent could not activate a release, or, if the error is of a field
// "tests[name]", the test that its candidate did not pass there.
type AgentFailure struct {
	Agent string
	Err   *script.Error
}

// Status says how far the selected scripts have come on the fleet. The zero
// Name selects all scripts that the caller may read, one without Script all of the
// tenant. Many scripts are asked for page by page: each page is of its own moment.
func (c *Client) Status(ctx context.Context, selected script.Name) (FleetStatus, error) {
	req := &registryv1.StatusRequest{Tenant: selected.Tenant, Name: selected.Script, PageSize: statusPage}
	var whole FleetStatus
	for {
		resp, err := call(ctx, c, c.registry.Status, req)
		if err != nil {
			return FleetStatus{}, err
		}
		page, err := toFleetStatus(resp.GetStatus())
		if err != nil {
			return FleetStatus{}, err
		}
		page.Scripts = append(whole.Scripts, page.Scripts...)
		whole = page
		if resp.GetNextPageToken() == "" {
			return whole, nil
		}
		req.PageToken = resp.GetNextPageToken()
	}
}

// statusPage is how many scripts are asked for at a time.
const statusPage = 1000

// Fleet returns the identity of the fleet that the registry serves.
func (c *Client) Fleet(ctx context.Context) (string, error) {
	resp, err := call(ctx, c, c.registry.ListAgents, &registryv1.ListAgentsRequest{PageSize: 1})
	return resp.GetFleet(), err
}

// Agents yields the agents in the order of their names; if troubled, those alone
// that failed or run behind, are unknown, or belong to another fleet. It asks for them page by page as they
// are consumed; an error ends the sequence.
func (c *Client) Agents(ctx context.Context, troubled bool) iter.Seq2[AgentStatus, error] {
	return func(yield func(AgentStatus, error) bool) {
		req := &registryv1.ListAgentsRequest{Troubled: troubled}
		for {
			resp, err := call(ctx, c, c.registry.ListAgents, req)
			if err != nil {
				yield(AgentStatus{}, err)
				return
			}
			for _, m := range resp.GetAgents() {
				agent, err := toAgentStatus(m)
				if !yield(agent, err) || err != nil {
					return
				}
			}
			if resp.GetNextPageToken() == "" {
				return
			}
			req.PageToken = resp.GetNextPageToken()
		}
	}
}

func toAgentStatus(m *registryv1.AgentStatus) (AgentStatus, error) {
	tenants, err := script.ParseSelector(m.GetTenants())
	if err != nil {
		return AgentStatus{}, malformed(err)
	}
	a := AgentStatus{
		Name:       m.GetAgent(),
		Foreign:    m.GetForeignFleet(),
		Labels:     m.GetLabels(),
		Software:   m.GetSoftware(),
		Activated:  script.Revision(m.GetActivatedRevision()),
		Unknown:    m.GetUnknown(),
		UnheardFor: m.GetUnheardFor().AsDuration(),
		Behind:     int(m.GetBehind()),
		Lag:        m.GetLag().AsDuration(),
		Failed:     int(m.GetFailed()),
		Tenants:    tenants,
		DiskKeys:   m.GetDiskKeys(),
		Drifts:     m.GetDrifts(),
		Held:       m.GetHeld(),
	}
	for _, f := range m.GetFailures() {
		a.Failures = append(a.Failures, ScriptFailure{
			Name:     script.Name{Tenant: f.GetTenant(), Script: f.GetName()},
			Revision: script.Revision(f.GetRevision()),
			Err:      wire.ToError(f.GetError()),
		})
	}
	return a, nil
}

func toFleetStatus(m *registryv1.FleetStatus) (FleetStatus, error) {
	fleet := FleetStatus{
		Fleet: m.GetFleet(), Head: script.Revision(m.GetHeadRevision()),
		Connected: int(m.GetConnected()), Unknown: int(m.GetUnknown()),
		Unreadable: toUnreadable(m.GetUnreadable()),
	}
	var err error
	if fleet.Freeze, err = toFrozen(m); err != nil {
		return FleetStatus{}, err
	}
	for _, s := range m.GetScripts() {
		release, err := toRelease(s.GetRelease())
		if err != nil {
			return FleetStatus{}, err
		}
		st := ScriptStatus{
			Release:      release,
			Desired:      int(s.GetDesired()),
			Active:       int(s.GetActive()),
			Failed:       int(s.GetFailed()),
			Unknown:      int(s.GetUnknown()),
			Starting:     int(s.GetStarting()),
			Lagging:      int(s.GetLagging()),
			Converged:    s.GetConverged(),
			Took:         s.GetTook().AsDuration(),
			SlowestAgent: s.GetSlowestAgent(),
		}
		if rollout, ok := wire.ToRollout(s.GetRollout()); ok {
			st.Rollout = &rollout
		}
		if trials := s.GetTrials(); trials != nil {
			st.Trials = &Trials{
				Passed: int(trials.GetPassed()), Failed: int(trials.GetFailed()), Running: int(trials.GetRunning()),
				Calls: trials.GetCalls(), FailedCalls: trials.GetFailedCalls(),
				Waiting: int(trials.GetWaiting()), WaitingFor: trials.GetWaitingFor(), WaitingWhy: trials.GetWaitingWhy(), Why: trials.GetWhy(), Evidence: trials.GetEvidence(),
				Shadow: wire.ToShadowCalls(trials.GetShadow()),
			}
		}
		if u := s.GetUnreadable(); u != nil {
			st.Unreadable = &toUnreadable([]*registryv1.Unreadable{u})[0]
		}
		for _, f := range s.GetFailures() {
			st.Failures = append(st.Failures, AgentFailure{Agent: f.GetAgent(), Err: wire.ToError(f.GetError())})
		}
		fleet.Scripts = append(fleet.Scripts, st)
	}
	return fleet, nil
}
