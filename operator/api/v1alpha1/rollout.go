package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout is how a new version comes to the agents.
//
// +kubebuilder:validation:XValidation:rule="!has(self.onDeadline) || self.onDeadline == 'abort' || has(self.progressDeadline)",fieldPath=".onDeadline",message="needs progressDeadline: without it, a candidate waits for as long as it takes"
// +kubebuilder:validation:XValidation:rule="!has(self.maxErrorPercent) || has(self.steps) && size(self.steps) > 0",fieldPath=".maxErrorPercent",message="needs steps: only while some of the agents run the new version are its calls looked at"
// +kubebuilder:validation:XValidation:rule="!has(self.maxErrorIncrease) || has(self.steps) && size(self.steps) > 0",fieldPath=".maxErrorIncrease",message="needs steps: only while some of the agents run the new version are its calls looked at"
// +kubebuilder:validation:XValidation:rule="!has(self.maxLatencyIncrease) || has(self.steps) && size(self.steps) > 0",fieldPath=".maxLatencyIncrease",message="needs steps: only while some of the agents run the new version are its calls looked at"
type Rollout struct {
	// A new version runs on some of the agents first, step by step, and everywhere after
	// the last step. Without steps it comes to all agents at once. The first version
	// of a script has no steps: there is nothing else that could run meanwhile.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.filter(s, !has(s.selector) && !has(s.by) && !has(s.shadow)).map(s, s.percent).isSorted() && self.all(s, has(s.selector) || has(s.by) || has(s.shadow) || self.exists_one(other, !has(other.selector) && !has(other.by) && !has(other.shadow) && other.percent == s.percent))",message="each step must have a higher percent than the step before"
	Steps []RolloutStep `json:"steps,omitempty"`

	// How many calls of the new version may fail, in percent of all that it gets on the way,
	// from its first step on, such as 5 or 0.1. It is given up as soon as more did, after 20 calls at the
	// earliest, or after minCalls if that is fewer. Each step lasts 10s at least then. Without
	// it calls are not looked at. It needs steps.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxErrorPercent *float64 `json:"maxErrorPercent,omitempty"`

	// How many more calls of the new version than of the active one may fail in the same step,
	// in percentage points, such as 0.5. The registry compares the agents of the step with all
	// others, and gives the new version up as soon as the difference is no chance. It needs steps.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxErrorIncrease *float64 `json:"maxErrorIncrease,omitempty"`

	// The percentage of shadowed calls whose results may differ from the live ones, such as 0.5. A call
	// of the new version that fails where the live one does not counts, too. The new version is given
	// up as soon as more differ, after 20 calls at the earliest, or after minCalls if that is fewer. It
	// needs a shadow step.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxDiffPercent *float64 `json:"maxDiffPercent,omitempty"`

	// How much slower than the active version the new one may be in the same step. It needs steps.
	// +optional
	MaxLatencyIncrease *LatencyIncrease `json:"maxLatencyIncrease,omitempty"`

	// How many calls of the new version each step takes as evidence before it passes, and how many
	// of the active one if they are compared. 20 unless set; 0 has steps pass without calls. It
	// needs maxErrorPercent, maxErrorIncrease, maxDiffPercent or maxLatencyIncrease.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MinCalls *int32 `json:"minCalls,omitempty"`

	// Of how many lost agents the new version is given up: a number, or a percentage such as
	// "5%". An agent is lost that ends, restarts, loses the tenant's process or is not heard any more
	// while it is to run the version, or to test it. One agent unless set, or one percent of the agents.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^([1-9]|[1-4][0-9]|50)%$`
	FailureLimit *intstr.IntOrString `json:"failureLimit,omitempty"`

	// How many agents may have yet to pass the tests, or to run the version, when the rollout
	// goes on: a number, or a percentage such as "5%". One percent of the agents unless set.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^([1-9]|[1-4][0-9]|50)%$`
	Tolerate *intstr.IntOrString `json:"tolerate,omitempty"`

	// How long the new version may wait, beside its pauses, before onDeadline applies, such as 30m;
	// up to 168h. Without it, it waits for as long as it takes.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('168h')",message="must be a duration up to 168h, such as 30m"
	ProgressDeadline *string `json:"progressDeadline,omitempty"`

	// What happens to the new version at the progressDeadline: abort, the default, gives it up. With
	// pause it stays in its step until somebody approves, promotes, retries or aborts it.
	// +optional
	// +kubebuilder:validation:Enum=abort;pause
	OnDeadline string `json:"onDeadline,omitempty"`

	// Scripts of the same tenant, such as acme/lib. A new version that has passed its tests waits
	// until the latest version of each of them is live everywhere.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=127
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	After []string `json:"after,omitempty"`

	// Where agents take the key of a request from, for steps by key: request.headers.NAME,
	// request.cookies.NAME, request.query_params.NAME or request.remote_addr. Without it, callers name
	// the key. It needs a step by key.
	// +optional
	// +kubebuilder:validation:MaxLength=160
	// +kubebuilder:validation:Pattern=`^request[.](remote_addr|(headers|cookies|query_params)[.].+)$`
	Key string `json:"key,omitempty"`
}

// LatencyIncrease is a percentage, such as "20%", for each percentile that is compared.
//
// +kubebuilder:validation:MinProperties=1
type LatencyIncrease struct {
	// Of the median.
	// +optional
	P50 Percentage `json:"p50,omitempty"`
	// Of the 95th percentile.
	// +optional
	P95 Percentage `json:"p95,omitempty"`
	// Of the 99th percentile.
	// +optional
	P99 Percentage `json:"p99,omitempty"`
}

// Percentage is a number of percent, such as "20%".
//
// +kubebuilder:validation:MaxLength=5
// +kubebuilder:validation:Pattern=`^([1-9][0-9]{0,2}|1000)%$`
type Percentage string

// RolloutStep makes a new version live on some of the agents.
//
// +kubebuilder:validation:XValidation:rule="!has(self.shadow) || !has(self.percent) && !has(self.by)",fieldPath=".shadow",message="stands alone: leave out percent and by"
// +kubebuilder:validation:XValidation:rule="has(self.percent) || has(self.shadow) || has(self.selector) && !has(self.by)",fieldPath=".percent",message="is missing: add the percentage of the agents, from 1 to 99, or a selector"
type RolloutStep struct {
	// Of the agents, rounded up: one at least. It grows from step to step. With a selector it is of
	// the agents that this selects, and all of them if it is left out. With by: key it is of the keys.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	Percent int32 `json:"percent,omitempty"`

	// With key the step takes a share of the keys of calls, such as users, instead of the agents: the
	// same keys get the version on each agent. Calls without a key get the active version.
	// +optional
	// +kubebuilder:validation:Enum=key
	By string `json:"by,omitempty"`

	// The step runs the new version in the shadow of so many percent of the calls: after the live answer,
	// which stays what it is. Agents compare the results (scriptctl rollout diff). Shadow steps come
	// first. With a selector only agents that it selects shadow calls.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Shadow int32 `json:"shadow,omitempty"`

	// Labels of agents, such as zone: a. The step takes agents that have all of them.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() <= 63 && name.matches('^[A-Za-z0-9]([-_./A-Za-z0-9]*[A-Za-z0-9])?$'))",message="names of labels must have 1 to 63 letters, digits, '-', '_', '.' and '/', and start and end with a letter or digit"
	Selector map[string]AgentLabel `json:"selector,omitempty"`

	// How long the step lasts at least, such as 10m; up to 168h, which are seven days.
	// Without it the next step begins as soon as the version runs on the agents of this one,
	// with a bound of calls, such as maxErrorPercent, after 10s at the earliest.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) <= duration('168h')",message="must be a duration up to 168h, such as 10m"
	Pause *string `json:"pause,omitempty"`

	// The step passes only once somebody approves it: scriptctl rollout approve.
	// +optional
	Approval bool `json:"approval,omitempty"`

	// A system outside of Scriptorium that has to say that the step passes. The registry asks it
	// when all else of the step has passed, and again every ten seconds or so.
	// +optional
	Gate *RolloutGate `json:"gate,omitempty"`
}

// RolloutGate names a source of the registry: its operator says where that is, in the file of
// registryd --gates.
//
// +kubebuilder:validation:XValidation:rule="has(self.prometheus) || has(self.webhook)",message="names no source: add prometheus or webhook with the name of one"
// +kubebuilder:validation:XValidation:rule="!has(self.prometheus) || !has(self.webhook)",message="names two sources, prometheus and webhook: leave one of them out"
// +kubebuilder:validation:XValidation:rule="has(self.query) == has(self.prometheus)",fieldPath=".query",message="is for prometheus, which needs it"
// +kubebuilder:validation:XValidation:rule="(has(self.min) || has(self.max)) == has(self.prometheus)",fieldPath=".max",message="is for prometheus, like min, and prometheus needs one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",fieldPath=".min",message="is more than max: no value would pass"
type RolloutGate struct {
	// The name of a Prometheus.
	// +optional
	Prometheus SourceName `json:"prometheus,omitempty"`

	// The name of a webhook. It answers whether the step passes, or the new version is given up.
	// +optional
	Webhook SourceName `json:"webhook,omitempty"`

	// PromQL, such as 'sum(rate(errors_total{script="$tenant/$script"}[5m]))'. $tenant, $script,
	// $version, $active and $step stand for the script, the new version, the active one and the
	// step. It has to find one value, which is a number within min and max.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Query string `json:"query,omitempty"`

	// What the value must be at least.
	// +optional
	Min *float64 `json:"min,omitempty"`

	// What the value may be at most.
	// +optional
	Max *float64 `json:"max,omitempty"`
}

// SourceName is the name of a source of gates.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type SourceName string

// AgentLabel is the value of a label of agents.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`
type AgentLabel string

// Test is a call that a new version has to answer rightly before it runs. Of expect and
// error one at most is set; without both, the call only must not fail.
type Test struct {
	// Unique among the script's tests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`

	// The argument of the call: any JSON value. {} unless set.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Request *apiextensionsv1.JSON `json:"request,omitempty"`

	// What the first result must be: any JSON value but null. Members of an object that
	// are named here must be there and be so, and null stands for one that is not there;
	// all else must be equal.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Expect *apiextensionsv1.JSON `json:"expect,omitempty"`

	// The kind of error that the call must end with: SCRIPT, one of the script's own;
	// LIMIT, a bound that it broke; TIMEOUT. Not together with expect.
	// +optional
	// +kubebuilder:validation:Enum=SCRIPT;LIMIT;TIMEOUT
	Error *string `json:"error,omitempty"`
}

// CandidateState is how far a candidate has come.
//
// +kubebuilder:validation:Enum=Testing;RollingOut;Failed;Frozen
type CandidateState string

// The states of a candidate.
const (
	CandidateTesting    CandidateState = "Testing"    // its tests are run, it runs nowhere
	CandidateRollingOut CandidateState = "RollingOut" // it goes through the steps, or is about to
	CandidateFailed     CandidateState = "Failed"     // it was given up, and runs nowhere
	CandidateFrozen     CandidateState = "Frozen"     // it waits for the end of a freeze, and runs nowhere
)

// CandidateStatus is a version on its way to being the active one.
type CandidateStatus struct {
	// Its number.
	Version int64 `json:"version"`
	// Testing: every agent runs its tests, and calls get the version before. RollingOut:
	// some agents run it, or are about to. Failed: it was given up, and the version before
	// goes on. Frozen: it waits for the end of a freeze of the registry. Calls that name its number, as tenant/script@4, get it in each state, unless
	// it is the first version of the script.
	State CandidateState `json:"state"`
	// The step that it is in, from 1; 0 before the first.
	Step int32 `json:"step"`
	// How many steps there are.
	Steps int32 `json:"steps"`
	// Of the agents, that are to run it in this step: the plan's number; 0 if none are, or all that
	// the selector selects.
	Percent int32 `json:"percent"`
	// The selector of the step, as "zone=a".
	// +optional
	Selector string `json:"selector,omitempty"`
	// "key" if the step takes a percentage of the keys of calls, and not of the agents.
	// +optional
	By string `json:"by,omitempty"`
	// Agents on which it passed all tests.
	Passed int32 `json:"passed"`
	// Agents that run it.
	Running int32 `json:"running"`
	// Calls of it there since this attempt began; written every ten seconds or so.
	Calls int64 `json:"calls"`
	// How many of them failed.
	FailedCalls int64 `json:"failedCalls"`
	// Why it was given up: the agent and what went wrong there, or who did it.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Since when it is in this step, or was given up.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
