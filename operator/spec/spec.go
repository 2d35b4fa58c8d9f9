// Package spec says what a Script, a LuaScript and a ScriptTenant ask for, in the registry's
// words, and what is wrong with them. It is pure: the webhook refuses with what the
// controllers put into conditions, because both ask here.
package spec

import (
	"encoding/base64"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Wanted is what a Script or LuaScript wants the registry to have.
type Wanted struct {
	Name       script.Name
	Engine     string
	Source     []byte // nil if Settings have an Artifact
	Entrypoint string // "" means that the chunk itself is the program
	Enabled    bool
	Pin        uint64          // the version that is pinned; 0 follows the latest
	Settings   script.Settings // with JSON in the one form in which equal values are equal bytes
	Owner      string          // of the script in the registry: the object
	Signature  string          // of the publisher; "" for none

	// SourceField is the field that holds the source: spec.source or spec.script.
	SourceField string
}

// The fields that hold a source.
const (
	sourceField   = "spec.source"
	base64Field   = "spec.script"
	artifactField = "spec.artifact"
)

// maxAuthorBytes is the longest author that a registry takes.
const maxAuthorBytes = 128

// Author is who asks the registry for a change on behalf of an object such as
// "script/default/route". One that is too long for the registry is cut.
func Author(object string) string {
	author := "operator:" + object
	if len(author) > maxAuthorBytes {
		const mark = "..."
		author = author[:maxAuthorBytes-len(mark)] + mark
	}
	return author
}

// From returns what ls, an object of that kind, wants. What is wrong with it is an error of all its
// Faults, each of kind Invalid with the field it is in; Wanted is of no use then. It
// does not compile the source: Check does, and so does the registry.
func From(kind kinds.Kind, ls *v1alpha1.LuaScript) (Wanted, error) {
	var r reader
	w := r.wanted(kind, ls)
	return w, r.faults.orNil()
}

// Check is From, and compiles the source, running nothing of it. It returns
// the faults of both together.
func Check(checkers map[string]engine.Checker, kind kinds.Kind, ls *v1alpha1.LuaScript) (Wanted, error) {
	var r reader
	w := r.wanted(kind, ls)
	checker := checkers[w.Engine]
	if r.ofSource || checker == nil || w.Settings.Artifact != "" { // which the registry fetches and checks
		return w, r.faults.orNil()
	}
	err := checker.Check(engine.Source{Code: w.Source, Entrypoint: w.Entrypoint, Library: w.Settings.Library, Runtime: w.Settings.Runtime})
	if e := script.AsError(err); e != nil {
		located := *e
		if e.Field == "" {
			located.Field = "source"
		}
		r.faults = append(r.faults, w.locate(&located))
	}
	return w, r.faults.orNil()
}

// Publish returns the request that makes the registry's script what is wanted, in
// one transaction.
func (w *Wanted) Publish() registryclient.PublishRequest {
	return registryclient.PublishRequest{
		Name:       w.Name,
		Source:     w.Source,
		Engine:     w.Engine,
		Entrypoint: new(w.Entrypoint),
		Settings:   new(w.Settings),
		Enabled:    new(w.Enabled),
		Pin:        new(w.Pin),
		Signature:  w.Signature,
		Write:      registryclient.Write{Author: Author(w.Owner), Owner: w.Owner},
	}
}

// Digest is that of the wanted source.
func (w *Wanted) Digest() script.Digest { return script.DigestOf(w.Source) }

// reader reads a spec and collects what is wrong with it.
type reader struct {
	faults   Faults
	ofSource bool // there is no source that could be compiled
}

func (r *reader) fault(field, format string, args ...any) {
	r.faults = append(r.faults, script.Errorf(script.Invalid, field, format, args...))
}

// check collects the error of a check of one field.
func (r *reader) check(err error) {
	if e := script.AsError(err); e != nil {
		r.faults = append(r.faults, e)
	}
}

func (r *reader) wanted(kind kinds.Kind, ls *v1alpha1.LuaScript) Wanted {
	spec := &ls.Spec
	w := Wanted{
		Name:       script.Name{Tenant: spec.TenantID, Script: ls.Name},
		Engine:     engineOf(spec),
		Entrypoint: manifest.DefaultEntrypoint,
		Enabled:    spec.Enabled == nil || *spec.Enabled,
		Owner:      kind.Owner(ls.Namespace, ls.Name),
	}
	r.check(script.ValidateLabel("metadata.name", ls.Name))
	r.check(script.ValidateLabel("spec.tenantId", spec.TenantID))
	if kind == kinds.LuaScript && w.Engine != script.EngineLua { // the API server says so first
		r.fault("spec.runtime", "a LuaScript is in Lua: set kind to Script for the other runtimes")
	}
	if spec.Entrypoint != nil {
		w.Entrypoint = r.entrypoint(w.Engine, *spec.Entrypoint)
	}
	if spec.Version != nil {
		w.Pin = positive[uint64](r, "spec.version", *spec.Version, 1<<53)
	}
	w.Settings.Limits = r.limits("spec.limits", spec.Limits)
	w.Settings.Trigger = r.trigger("spec.trigger", spec.Trigger)
	w.Settings.OnError = r.onError("spec.onError", spec.OnError)
	w.Settings.Decisions = r.log("spec.log", spec.Log)
	if spec.RevisionHistoryLimit != nil {
		w.Settings.HistoryLimit = positive[int](r, "spec.revisionHistoryLimit", int64(*spec.RevisionHistoryLimit), script.MaxHistoryLimit)
	}
	if spec.Config != nil {
		w.Settings.Config = r.config(spec.Config.Raw)
	}
	w.Settings.Runtime = runtimeOf(spec)
	w.Settings.Rollout = r.plan("spec.rollout", spec.Rollout, w.Name)
	w.Settings.Tests = r.tests("spec.tests", spec.Tests)
	if w.Settings.Library = spec.Library != nil && *spec.Library; w.Settings.Library && w.Entrypoint == manifest.DefaultEntrypoint {
		w.Entrypoint = "" // the API server has set it
	}
	r.check(w.Settings.CheckLibrary("spec", "spec.entrypoint", w.Entrypoint))
	r.check(w.Settings.CheckEngine("spec", w.Engine))
	r.source(spec, &w)
	if spec.Signature != nil && len(r.faults) == 0 {
		w.Signature = r.signature(*spec.Signature, &w)
	}
	return w
}

// signature refuses one that is of something else. Whose it is agents and registries know.
func (r *reader) signature(text string, w *Wanted) string {
	v := script.Version{Digest: w.Digest(), Engine: w.Engine, Entrypoint: w.Entrypoint}
	if e := script.AsError(publisher.CoversButLibraries(text, publisher.StatementOf(w.Name, v, w.Settings.Spec))); e != nil {
		r.fault("spec.signature", "%s", e.Message)
	}
	return text
}

func (r *reader) entrypoint(engine, name string) string {
	if e := script.AsError(script.CheckEntrypoint(engine, name)); e != nil {
		r.fault("spec.entrypoint", "%s", e.Message)
		r.ofSource = true
	}
	return name
}

// engineOf returns the engine that the spec names.
func engineOf(spec *v1alpha1.LuaScriptSpec) string {
	if spec.Runtime == nil {
		return script.EngineLua
	}
	return string(*spec.Runtime)
}

// runtimeOf returns the options of the engine.
func runtimeOf(spec *v1alpha1.LuaScriptSpec) (r script.Runtime) {
	if w := spec.Wasm; w != nil {
		r.Wasm.Reuse = w.Reuse != nil && *w.Reuse
	}
	if o := spec.Rego; o != nil {
		r.Rego = script.RegoOptions{Input: textOf(o.Input), Target: textOf(o.Target), V0: o.V0 != nil && *o.V0}
	}
	return r
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// source finds the source, and the field that holds it.
func (r *reader) source(spec *v1alpha1.LuaScriptSpec, w *Wanted) {
	before := len(r.faults)
	defer func() { r.ofSource = r.ofSource || len(r.faults) > before }()
	w.SourceField = sourceField
	switch {
	case spec.Script != nil && spec.Source != nil:
		r.fault(base64Field, "there is %s as well: keep one of the two", sourceField)
		return
	case spec.Artifact != nil && (spec.Script != nil || spec.Source != nil):
		r.fault(artifactField, "there is a source as well: keep one of artifact, source and script")
		return
	case spec.Artifact != nil:
		w.SourceField, w.Settings.Artifact = artifactField, *spec.Artifact
		r.check(script.CheckArtifact(artifactField, *spec.Artifact))
		if w.Engine == script.EngineLua {
			r.fault(artifactField, "is for the runtimes %s and %s: write the source to %s", script.EngineWasm, script.EngineRego, sourceField)
		}
		return
	case spec.Source != nil:
		w.Source = []byte(*spec.Source)
	case spec.Script != nil:
		w.SourceField = base64Field
		// Tools break base64 into lines, and heredocs end in one.
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(*spec.Script), ""))
		if err != nil {
			r.fault(base64Field, "is not base64 (%v): write the plain text to %s instead", err, sourceField)
			return
		}
		w.Source = decoded
	default:
		r.fault(sourceField, "is missing: add one of source (plain text), script (base64) and artifact (in an OCI registry)")
		return
	}
	r.code(w)
}

// code checks what can be said of a source without compiling it.
func (r *reader) code(w *Wanted) {
	if e := script.AsError(script.CheckSource(w.Engine, w.Source)); e != nil {
		located := *e
		located.Field = w.SourceField
		r.faults = append(r.faults, &located)
		return
	}
	if most := w.Settings.Limits.SourceLimit(w.Engine, w.Source); len(w.Source) > most {
		r.fault(w.SourceField, "the source has %d bytes and may have %d: shorten it, or raise spec.limits.sourceBytes (at most %d)",
			len(w.Source), most, script.MaxSource(w.Engine, w.Source))
	}
}
