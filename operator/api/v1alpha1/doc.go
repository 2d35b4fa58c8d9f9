// Package v1alpha1 is the Kubernetes API of Scriptorium: LuaScript, a script of a
// tenant, and ScriptTenant, what a tenant may use and which namespaces may act for
// it. The definitions in deploy/crd are generated from it; its comments are what
// `kubectl explain` shows.
//
// +kubebuilder:object:generate=true
// +groupName=scriptorium.dev
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// GroupVersion of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "scriptorium.dev", Version: "v1alpha1"}

// schemeBuilder collects the types.
var schemeBuilder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(
	&LuaScript{}, &LuaScriptList{}, &ScriptTenant{}, &ScriptTenantList{},
)

// AddToScheme adds the types to a scheme.
var AddToScheme = schemeBuilder.AddToScheme
