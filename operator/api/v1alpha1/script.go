package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Script is a script of a tenant, tenantId/metadata.name, in any of the languages. The
// operator puts it into the registry, which pushes it to the agent on every node; status
// says how far it has come. Nobody else changes the script as long as there is a Script
// for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=scr,categories=scriptorium
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
type Script struct {
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

// ScriptList is a list of Scripts.
//
// +kubebuilder:object:root=true
type ScriptList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Script `json:"items"`
}
