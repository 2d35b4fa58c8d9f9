package registryclient

import (
	"time"

	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FleetStatus is the fleet and the selected scripts, at one moment.
type FleetStatus struct {
	Fleet   string // the registry's identity, made once
	Head    script.Revision
	Agents  []AgentStatus
	Scripts []ScriptStatus
}

// AgentStatus is one agent, as it last reported.
type AgentStatus struct {
	Name       string
	Labels     map[string]string
	Software   string
	Activated  script.Revision // every release up to here is live, but for failures
	Unknown    bool            // unheard for too long: what it runs is not known
	UnheardFor time.Duration
}

// ScriptStatus is how far one release has come.
type ScriptStatus struct {
	// Release is without its config, and with its active version alone of the
	// retained ones: Get has them.
	Release   script.Release
	Desired   int  // agents of the fleet
	Active    int  // agents that have activated this release
	Failed    int  // agents that could not, and still run what they had
	Unknown   int  // agents that are unknown
	Converged bool // every connected agent is active, and there is at least one
	// Took is the time from the commit until the last agent reported it active;
	// 0 when that is not known.
	Took time.Duration
	// SlowestAgent was last, or is still waited for; "" when none is.
	SlowestAgent string
	Failures     []AgentFailure // at most five
}

// Waiting returns how many connected agents have yet to say that they activated
// the release, or could not.
func (s *ScriptStatus) Waiting() int {
	return max(0, s.Desired-s.Active-s.Failed-s.Unknown)
}

// AgentFailure is why an agent could not activate a release.
type AgentFailure struct {
	Agent string
	Err   *script.Error
}

func toFleetStatus(m *registryv1.FleetStatus) (FleetStatus, error) {
	fleet := FleetStatus{Fleet: m.GetFleet(), Head: script.Revision(m.GetHeadRevision())}
	for _, a := range m.GetAgents() {
		fleet.Agents = append(fleet.Agents, AgentStatus{
			Name:       a.GetAgent(),
			Labels:     a.GetLabels(),
			Software:   a.GetSoftware(),
			Activated:  script.Revision(a.GetActivatedRevision()),
			Unknown:    a.GetUnknown(),
			UnheardFor: a.GetUnheardFor().AsDuration(),
		})
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
			Converged:    s.GetConverged(),
			Took:         s.GetTook().AsDuration(),
			SlowestAgent: s.GetSlowestAgent(),
		}
		for _, f := range s.GetFailures() {
			st.Failures = append(st.Failures, AgentFailure{Agent: f.GetAgent(), Err: wire.ToError(f.GetError())})
		}
		fleet.Scripts = append(fleet.Scripts, st)
	}
	return fleet, nil
}
