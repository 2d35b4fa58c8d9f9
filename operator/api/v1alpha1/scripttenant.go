package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionConfigured of a ScriptTenant is true since the registry has had settings of
// it: those of the generation that the condition speaks of, which need not be the one
// that there is now. From then on its scripts are published.
const ConditionConfigured = "Configured"

// ScriptTenant is a tenant of the same name: which namespaces may act for it, and
// what all its scripts together may use on each node. Without one, the Scripts and
// LuaScripts of the tenant are refused. It is for those who run the cluster: whoever may change it
// decides whose scripts a namespace can replace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=st,categories=scriptorium
// +kubebuilder:printcolumn:name="Isolation",type=string,JSONPath=`.spec.isolation`
// +kubebuilder:printcolumn:name="Scripts",type=integer,JSONPath=`.status.scripts`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="metadata.name must be a DNS label: at most 63 of a-z, 0-9 and '-'"
type ScriptTenant struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// The namespaces that can act for the tenant, and the quotas of the tenant.
	// +optional
	Spec ScriptTenantSpec `json:"spec,omitzero"`
	// What the registry has of it.
	// +optional
	// +kubebuilder:default:={"observedGeneration":-1}
	Status ScriptTenantStatus `json:"status,omitzero"`
}

// ScriptTenantList is a list of ScriptTenants.
//
// +kubebuilder:object:root=true
type ScriptTenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []ScriptTenant `json:"items"`
}

// ScriptTenantSpec has the namespaces that can act for a tenant, and the quotas of the tenant.
type ScriptTenantSpec struct {
	// The namespaces whose Scripts and LuaScripts may be the tenant's, by name. * stands for all.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?|[*])$`
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
	// Namespaces with these labels, besides.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'] && (e.operator in ['In', 'NotIn']) == (has(e.values) && size(e.values) > 0))",message="an expression's operator is In or NotIn, with values, or Exists or DoesNotExist, without"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// How the tenant's calls are kept from those of others: shared runs them in the
	// agent's process, process in one that the tenant has to itself on each node.
	// +optional
	// +kubebuilder:default=shared
	// +kubebuilder:validation:Enum=shared;process
	Isolation string `json:"isolation,omitempty"`
	// What each script's limits are at most.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.coroutines)",fieldPath=".coroutines",message="is not for a tenant to bound: leave it out"
	Limits *Limits `json:"limits,omitempty"`
	// Calls that run at once on a node. 64 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	Concurrency *int32 `json:"concurrency,omitempty"`
	// Processor time on each node, on average, such as 500m. Unbounded unless set, but
	// for the share of others who want it too.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1k'))",message="must be above 0 and up to 1000 cores, such as 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory of the tenant's process, or that its running calls allocate together in a
	// shared one. 256Mi unless set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('64Mi')) && !quantity(string(self)).isGreaterThan(quantity('64Gi'))",message="must be from 64Mi, which a process needs, to 64Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Bytes a second that all scripts together may log on each node. 65536 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777216
	LogBytes *int64 `json:"logBytes,omitempty"`
	// What all of the tenant's values may have together. 16Mi unless set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('256Mi'))",message="must be above 0 and up to 256Mi"
	Values *resource.Quantity `json:"values,omitempty"`
	// Scripts that the tenant can have. 20000 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Scripts *int32 `json:"scripts,omitempty"`
	// Size of the sources of all retained versions. 512Mi unless set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('64Gi'))",message="must be above 0 and up to 64Gi"
	Sources *resource.Quantity `json:"sources,omitempty"`
	// Changes a second, on average. 100 times as many can come at once. 100 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Writes *int32 `json:"writes,omitempty"`
	// Bytes of sources and values a second, on average. 128 times as many can come at
	// once. 1048576 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1073741824
	WriteBytes *int64 `json:"writeBytes,omitempty"`
	// What is recorded of the calls of scripts that say nothing of it. The masks hold for
	// all scripts.
	// +optional
	Log *Log `json:"log,omitempty"`
	// strict records every call, and fails those whose record the disk of the agent does
	// not accept.
	// +optional
	// +kubebuilder:validation:Enum=strict
	Audit string `json:"audit,omitempty"`
}

// ScriptTenantStatus is what the registry has of a ScriptTenant.
type ScriptTenantStatus struct {
	// The generation of the spec that the status is about; -1 until the operator has
	// reconciled the ScriptTenant.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Ready is true when the registry has what the spec says, and Configured since it has
	// had what the spec said at any time.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Scripts and LuaScripts that are the tenant's.
	// +optional
	Scripts int32 `json:"scripts,omitempty"`
}
