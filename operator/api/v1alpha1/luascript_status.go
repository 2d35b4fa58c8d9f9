package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of the conditions of Scripts and LuaScripts. Reconciling and Stalled are those of
// kstatus (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus):
// they are there only while they are true.
const (
	// ConditionReady is true when the registry has what the spec says, every connected
	// agent runs it, and nobody has to change anything.
	ConditionReady = "Ready"
	// ConditionPublished is true when the registry has what the spec says.
	ConditionPublished = "Published"
	// ConditionConverged is true when every connected agent runs it, which none does while
	// somebody holds the script at another version.
	ConditionConverged = "Converged"
	// ConditionReconciling is true while there is something left to do.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when somebody has to change something first.
	ConditionStalled = "Stalled"
	// ConditionHeld is there while somebody holds the script at a version, or has frozen the
	// registry, and says who and why: the spec is stored, and does not change what runs.
	ConditionHeld = "Held"
)

// Phase is a LuaScript's state in a word.
//
// +kubebuilder:validation:Enum=Pending;Active;Error;Held
type Phase string

// The phases.
const (
	PhasePending Phase = "Pending" // not in the registry yet, not on all agents, or it is not known
	PhaseActive  Phase = "Active"  // on all connected agents
	PhaseError   Phase = "Error"   // refused, failed on an agent, or given up
	PhaseHeld    Phase = "Held"    // somebody holds another version than the spec asks for, or froze the registry
)

// LuaScriptStatus is how far a Script or LuaScript has come.
type LuaScriptStatus struct {
	// Pending, Active, Error or Held.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// The generation of the spec that the status is about; -1 until the operator has
	// reconciled the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// When the status last changed.
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// Ready, Published, Converged, and while they are true Reconciling, Stalled and Held.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The version that runs. While there is a candidate that is the one before it; it is
	// absent if nothing runs, because the first version has yet to pass its tests.
	// +optional
	ActiveVersion int64 `json:"activeVersion,omitempty"`
	// The highest version there is.
	// +optional
	LatestVersion int64 `json:"latestVersion,omitempty"`
	// The digest of the source that runs.
	// +optional
	Digest string `json:"digest,omitempty"`
	// The registry's revision of the release.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// The version on its way to being the active one, or the one that was given up; absent
	// if there is none.
	// +optional
	Candidate *CandidateStatus `json:"candidate,omitempty"`
	// The agents of the fleet, and what they run.
	// +optional
	Agents *AgentsStatus `json:"agents,omitempty"`
	// The versions that can be pinned, the newest first.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	History []VersionStatus `json:"history,omitempty"`
}

// AgentsStatus is how far a release has come on the fleet.
type AgentsStatus struct {
	// Active and desired agents, as 118/120.
	// +optional
	Summary string `json:"summary,omitempty"`
	// Agents that should run it.
	Desired int32 `json:"desired"`
	// Agents that have activated it. While there is a candidate, those that run the active version.
	Active int32 `json:"active"`
	// Agents that could not, and still run what they had; or on which a test of the
	// candidate failed.
	Failed int32 `json:"failed"`
	// Agents that were not heard of for 15 s: what they run is not known.
	Unknown int32 `json:"unknown"`
	// At most five of those that failed, with the reason.
	// +optional
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	Failing []FailingAgent `json:"failing,omitempty"`
}

// FailingAgent is an agent that could not activate a release, or on which a test failed.
type FailingAgent struct {
	// The agent's name, usually the node's.
	Agent string `json:"agent"`
	// What went wrong there.
	Reason string `json:"reason"`
}

// VersionStatus is a version that is retained.
type VersionStatus struct {
	// Its number.
	Version int64 `json:"version"`
	// The digest of its source.
	Digest string `json:"digest"`
	// When it was published.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}
