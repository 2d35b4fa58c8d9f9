// Package v1alpha1 is the Kubernetes API of Scriptorium: Script, a script of a
// tenant, LuaScript, its former name, for Lua alone, and ScriptTenant, what a tenant may use and which namespaces may act for
// it. The definitions in deploy/crd are generated from it; its comments are what
// `kubectl explain` shows.
//
// +kubebuilder:object:generate=true
// +groupName=scriptorium.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the types of this package.
var GroupVersion = schema.GroupVersion{Group: "scriptorium.dev", Version: "v1alpha1"}

// Finalizer keeps a Script or LuaScript until its script is gone from the registry, and a
// ScriptTenant until its settings are. Without it a deletion that the operator does not
// see, because it is restarting, would leave them behind.
const Finalizer = "scriptorium.dev/registry"

// AbandonAnnotation on an object that is being deleted lets it go at once if it is
// "true", whatever of it stays in the registry.
const AbandonAnnotation = "scriptorium.dev/abandon"

// TraceparentAnnotation on an object is the W3C traceparent of the edit that set it: what the operator does
// about the edit is part of that trace.
const TraceparentAnnotation = "scriptorium.dev/traceparent"

// AddToScheme adds the types to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Script{}, &ScriptList{}, &LuaScript{}, &LuaScriptList{}, &ScriptTenant{}, &ScriptTenantList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
