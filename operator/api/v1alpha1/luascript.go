package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LuaScript is a script of a tenant in Lua, tenantId/metadata.name: the former name of
// Script, for manifests that exist. Use Script for new ones. The operator puts it
// into the registry, which pushes it to the agent on every node; status says how far
// it has come. Nobody else changes the script as long as there is a LuaScript for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ls,categories=scriptorium
// +kubebuilder:selectablefield:JSONPath=`.spec.tenantId`
// +kubebuilder:printcolumn:name="Tenant",type=string,JSONPath=`.spec.tenantId`
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.status.activeVersion`
// +kubebuilder:printcolumn:name="Pinned",type=integer,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Candidate",type=integer,JSONPath=`.status.candidate.version`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.agents.summary`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="metadata.name must be a DNS label: at most 63 of a-z, 0-9 and '-'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.runtime) || self.spec.runtime == 'lua'",fieldPath=".spec.runtime",message="a LuaScript is in Lua: set kind to Script for the other runtimes"
type LuaScript struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// What the script is.
	// +required
	Spec LuaScriptSpec `json:"spec"`
	// How far it has come, as the registry and the agents say.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status LuaScriptStatus `json:"status,omitzero"`
}

// LuaScriptList is a list of LuaScripts.
//
// +kubebuilder:object:root=true
type LuaScriptList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []LuaScript `json:"items"`
}

// LuaScriptSpec is what a script is. A Script and a LuaScript have the same one.
//
// +kubebuilder:validation:XValidation:rule="(has(self.script) ? 1 : 0) + (has(self.source) ? 1 : 0) + (has(self.artifact) ? 1 : 0) == 1",message="exactly one of script, source and artifact must be set"
type LuaScriptSpec struct {
	// The tenant that owns the script: a DNS label. A ScriptTenant of that name must
	// let this namespace act for it. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: delete the object and create another"
	TenantID string `json:"tenantId"`

	// What the script is written in, and runs on. lua unless set.
	// +optional
	// +kubebuilder:validation:Enum=lua;wasm;rego
	Runtime *Runtime `json:"runtime,omitempty"`

	// The source of the script, in base64; line breaks in it do not matter. Exactly one
	// of script, source and artifact is set.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1417000
	// +kubebuilder:validation:XValidation:rule="self.matches(r'^[A-Za-z0-9+/\\s]+[=\\s]*$')",message="is not base64: write the plain text to spec.source instead"
	// +kubebuilder:validation:XValidation:rule="size(self) > 131072 || size(self.replace(' ', '').replace('\\n', '').replace('\\r', '').replace('\\t', '')) % 4 == 0",message="is not base64, or not all of it: its length is no multiple of 4"
	Script *string `json:"script,omitempty"`

	// The source of the script, as text.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	Source *string `json:"source,omitempty"`

	// Where the registry fetches the source: a WebAssembly module or a bundle of policies in an OCI
	// registry, by digest, such as oci://registry.example/acme/route@sha256:...
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^oci://[^@]+@sha256:[0-9a-f]{64}$`
	Artifact *string `json:"artifact,omitempty"`

	// Options of a WebAssembly module.
	// +optional
	Wasm *WasmOptions `json:"wasm,omitempty"`

	// Options of a policy.
	// +optional
	Rego *RegoOptions `json:"rego,omitempty"`

	// The function that is called, or the path of the rule. If it is empty, the chunk itself is the
	// program: the members of its argument are globals, and what it returns is the result.
	// +optional
	// +kubebuilder:default=handle
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([A-Za-z_][A-Za-z0-9_./]*)?$`
	Entrypoint *string `json:"entrypoint,omitempty"`

	// The script is a library: a chunk that returns a table, which other scripts of the tenant get by
	// require("tenant/name"). Nobody calls it, so it has no trigger and no tests. A script has the
	// libraries as they were when it was published.
	// +optional
	Library *bool `json:"library,omitempty"`

	// A script that is not enabled stays on the agents and answers DISABLED.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// The version that runs, whichever is the latest: an older number rolls back.
	// Without it, the latest version runs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740992
	Version *int64 `json:"version,omitempty"`

	// On which event the script runs, and about which requests.
	// +optional
	Trigger *Trigger `json:"trigger,omitempty"`

	// What a gateway gets about a request if the script makes no decision: it fails, is
	// disabled, takes too long, finds no room, or its result is no decision.
	// +optional
	OnError *OnError `json:"onError,omitempty"`

	// What is recorded of calls. Another log makes a new version.
	// +optional
	Log *Log `json:"log,omitempty"`

	// An object that the script reads as config. Another config makes a new version.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Config *apiextensionsv1.JSON `json:"config,omitempty"`

	// Bounds of one call. What is left out has its default.
	// +optional
	Limits *Limits `json:"limits,omitempty"`

	// How a new version comes to the agents: to all at once unless there are steps.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// Calls that a new version has to answer rightly, on every agent, before it runs on
	// any. They are made on the agents, of the new version, with its limits and config.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Tests []Test `json:"tests,omitempty"`

	// The publisher's signature, which agents may require: a DSSE envelope as JSON, as
	// `scriptctl sign` writes it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Signature *string `json:"signature,omitempty"`

	// How many versions are retained, to pin or to go back to.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// Runtime is what runs a script.
type Runtime string

// WasmOptions are options of a WebAssembly module.
type WasmOptions struct {
	// Run calls in instances that are reset after each call, in place of a new instance for each call.
	// It is faster. false unless set.
	// +optional
	Reuse *bool `json:"reuse,omitempty"`
}

// RegoOptions are options of a policy.
type RegoOptions struct {
	// The form of the input document: envoy stands for the form of Envoy's external authorization. The argument
	// as it is unless set.
	// +optional
	// +kubebuilder:validation:Enum=envoy
	Input *string `json:"input,omitempty"`
	// What the policy is compiled to. wasm if the policy allows it, unless set. An interpreted
	// policy needs a tenant with a process of its own.
	// +optional
	// +kubebuilder:validation:Enum=wasm;interpreted
	Target *string `json:"target,omitempty"`
	// The source is Rego from before version 1. false unless set.
	// +optional
	V0 *bool `json:"v0,omitempty"`
}

// Trigger says on which event a script runs, and about which requests. A gateway names the
// event, and the agent runs the scripts that match.
type Trigger struct {
	// A DNS label, such as pre-route.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Event string `json:"event"`
	// Of the scripts of an event, those with a higher priority run first, and those with the same
	// one by name. 0 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	Priority *int32 `json:"priority,omitempty"`
	// Conditions on the request, which must all hold. What is left out excludes nothing.
	// +optional
	Match *Match `json:"match,omitempty"`
}

// Match says about which requests a script runs. Its texts have 4 KiB together at most.
type Match struct {
	// Names in lower case, one of which must be the host of the request. *.shop.example is for all
	// names below shop.example.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hosts []string `json:"hosts,omitempty"`
	// Paths, one of which the cleaned path of the request must begin with. They match whole
	// segments: /cart is for /cart and /cart/7, and not for /carts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:Pattern=`^/`
	PathPrefixes []string `json:"pathPrefixes,omitempty"`
	// Methods, one of which must be that of the request.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Z][-A-Z0-9_]*$`
	Methods []string `json:"methods,omitempty"`
	// The values that headers must have, by name in lower case. * is for any value. If a header
	// comes more than once, one of its values must be this one.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	Headers map[string]string `json:"headers,omitempty"`
}

// OnError says what a gateway gets about a request if the script makes no decision.
//
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.policy) || self.policy != 'open'",fieldPath=".status",message="only goes with the policy closed: remove it, since an open policy answers nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.body) || size(self.body) == 0 || !has(self.policy) || self.policy != 'open'",fieldPath=".body",message="only goes with the policy closed: remove it, since an open policy answers nothing"
type OnError struct {
	// closed denies the request, open lets it go on. closed unless set. A gateway can say
	// otherwise.
	// +optional
	// +kubebuilder:validation:Enum=closed;open
	Policy *string `json:"policy,omitempty"`
	// The status of the answer to a request that is denied. 503 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=300
	// +kubebuilder:validation:Maximum=599
	Status *int32 `json:"status,omitempty"`
	// The body of that answer, up to 4 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Body *string `json:"body,omitempty"`
}

// Log says what is recorded of calls.
type Log struct {
	// Which calls go to the decision logs of agents, and with what of them. It stands in
	// place of the tenant's.
	// +optional
	Decisions *Decisions `json:"decisions,omitempty"`
}

// Decisions says which calls go to the decision log, and with what of them.
type Decisions struct {
	// The share of all calls, from 0 to 1: 0.01 is one of a hundred. 0 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	Sample *float64 `json:"sample,omitempty"`
	// Record every call that fails, whatever the sample. false unless set.
	// +optional
	Errors *bool `json:"errors,omitempty"`
	// Paths of arguments and results whose values no record has, such as
	// headers.authorization, body or items.*.card. Names match in any case.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	Mask []string `json:"mask,omitempty"`
	// What records have besides which call they are of, such as error, result or
	// input.headers.host. All unless set.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	Fields []string `json:"fields,omitempty"`
}

// Limits bound one call of a script.
type Limits struct {
	// Engine instructions that a call may execute. 1000000 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	Instructions *int64 `json:"instructions,omitempty"`
	// Wall-clock time that a call may take, such as 50ms. 100ms unless set, at most 10s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s))+$') && duration(self) > duration('0s') && duration(self) <= duration('10s')",message="must be a duration above 0 and up to 10s, such as 50ms"
	Timeout *string `json:"timeout,omitempty"`
	// Bytes of source. 65536 unless set, and 4194304 for modules and bundles.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	SourceBytes *int64 `json:"sourceBytes,omitempty"`
	// Bytes of all results together, as JSON. 65536 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	ResultBytes *int64 `json:"resultBytes,omitempty"`
	// Bytes a second that the script may log on each node. 16384 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1048576
	LogBytes *int64 `json:"logBytes,omitempty"`
	// Calls of the script that run at once on a node. As many as the tenant may, unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Concurrency *int32 `json:"concurrency,omitempty"`
	// Bounds that only Lua has.
	// +optional
	Lua *LuaLimits `json:"lua,omitempty"`
	// Bounds that only WebAssembly has.
	// +optional
	Wasm *WasmLimits `json:"wasm,omitempty"`
	// The former name of lua.stringBytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	StringBytes *int64 `json:"stringBytes,omitempty"`
	// The former name of lua.coroutines.
	// +optional
	Coroutines *bool `json:"coroutines,omitempty"`
}

// LuaLimits bound one call of a script in Lua.
type LuaLimits struct {
	// Bytes of any one string that the script makes. 262144 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	StringBytes *int64 `json:"stringBytes,omitempty"`
	// Whether the script may use coroutines. It may not unless set.
	// +optional
	Coroutines *bool `json:"coroutines,omitempty"`
}

// WasmLimits bound one call of a WebAssembly module, and of a policy that is compiled to one.
type WasmLimits struct {
	// Bytes of an instance's memory. 16777216 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=65536
	// +kubebuilder:validation:Maximum=67108864
	Memory *int64 `json:"memory,omitempty"`
}
