// Package spec says what a LuaScript and a ScriptTenant ask for, in the registry's
// words, and what is wrong with them. It is pure: the webhook refuses with what the
// controllers put into conditions, because both ask here.
package spec

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/proto/publisher"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Wanted is what a LuaScript wants the registry to have.
type Wanted struct {
	Name       script.Name
	Source     []byte
	Entrypoint string // "" means that the chunk itself is the program
	Enabled    bool
	Pin        uint64          // the version that is pinned; 0 follows the latest
	Settings   script.Settings // with JSON in the one form in which equal values are equal bytes
	Owner      string          // of the script in the registry: the LuaScript
	Signature  string          // of the publisher; "" for none

	// SourceField is the field that holds the source: spec.source or spec.script.
	SourceField string
}

// The fields that hold a source.
const (
	sourceField = "spec.source"
	base64Field = "spec.script"
)

// Owner is who a LuaScript is, as the owner of its script in the registry.
func Owner(namespace, name string) string { return script.LuaScriptOwner + namespace + "/" + name }

// maxAuthorBytes is the longest author that a registry takes.
const maxAuthorBytes = 128

// Author is who asks the registry for a change on behalf of an object such as
// "luascript/default/route". One that is too long for the registry is cut.
func Author(object string) string {
	author := "operator:" + object
	if len(author) > maxAuthorBytes {
		const mark = "..."
		author = author[:maxAuthorBytes-len(mark)] + mark
	}
	return author
}

// FromLuaScript returns what ls wants. What is wrong with it is an error of all its
// Faults, each of kind Invalid with the field it is in; Wanted is of no use then. It
// does not compile the source: Check does, and so does the registry.
func FromLuaScript(ls *v1alpha1.LuaScript) (Wanted, error) {
	var r reader
	w := r.wanted(ls)
	return w, r.faults.orNil()
}

// Check is FromLuaScript, and compiles the source, running nothing of it. It returns
// the faults of both together.
func Check(checker engine.Checker, ls *v1alpha1.LuaScript) (Wanted, error) {
	var r reader
	w := r.wanted(ls)
	if r.ofSource {
		return w, r.faults.orNil()
	}
	err := checker.Check(engine.Source{Code: w.Source, Entrypoint: w.Entrypoint, Library: w.Settings.Library})
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
		Engine:     manifest.Engine,
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

func (r *reader) wanted(ls *v1alpha1.LuaScript) Wanted {
	spec := &ls.Spec
	w := Wanted{
		Name:       script.Name{Tenant: spec.TenantID, Script: ls.Name},
		Entrypoint: manifest.DefaultEntrypoint,
		Enabled:    spec.Enabled == nil || *spec.Enabled,
		Owner:      Owner(ls.Namespace, ls.Name),
	}
	r.check(script.ValidateLabel("metadata.name", ls.Name))
	r.check(script.ValidateLabel("spec.tenantId", spec.TenantID))
	if spec.Entrypoint != nil {
		w.Entrypoint = r.entrypoint(*spec.Entrypoint)
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
	w.Settings.Rollout = r.plan("spec.rollout", spec.Rollout, w.Name)
	w.Settings.Tests = r.tests("spec.tests", spec.Tests)
	if w.Settings.Library = spec.Library != nil && *spec.Library; w.Settings.Library && w.Entrypoint == manifest.DefaultEntrypoint {
		w.Entrypoint = "" // the API server has set it
	}
	r.check(w.Settings.CheckLibrary("spec", "spec.entrypoint", w.Entrypoint))
	w.Source, w.SourceField = r.source(spec, w.Settings.Limits)
	if spec.Signature != nil && len(r.faults) == 0 {
		w.Signature = r.signature(*spec.Signature, &w)
	}
	return w
}

// signature refuses one that is of something else. Whose it is agents and registries know.
func (r *reader) signature(text string, w *Wanted) string {
	v := script.Version{Digest: w.Digest(), Engine: manifest.Engine, Entrypoint: w.Entrypoint}
	if e := script.AsError(publisher.CoversButLibraries(text, publisher.StatementOf(w.Name, v, w.Settings.Spec))); e != nil {
		r.fault("spec.signature", "%s", e.Message)
	}
	return text
}

func (r *reader) entrypoint(name string) string {
	const field = "spec.entrypoint"
	if len(name) > script.MaxEntrypointBytes {
		r.fault(field, "has %d bytes, at most %d are allowed", len(name), script.MaxEntrypointBytes)
		r.ofSource = true
		return name
	}
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			r.fault(field, `%.80q is not the name of a function; leave it out for %s, or "" to run the chunk itself`, name, manifest.DefaultEntrypoint)
			r.ofSource = true
			break
		}
	}
	return name
}

// source returns the source and the field that holds it.
func (r *reader) source(spec *v1alpha1.LuaScriptSpec, limits script.Limits) (code []byte, field string) {
	before := len(r.faults)
	defer func() { r.ofSource = r.ofSource || len(r.faults) > before }()
	switch {
	case spec.Script != nil && spec.Source != nil:
		r.fault(base64Field, "there is %s as well: keep one of the two", sourceField)
		return nil, sourceField
	case spec.Source != nil:
		code, field = []byte(*spec.Source), sourceField
	case spec.Script != nil:
		field = base64Field
		// Tools break base64 into lines, and heredocs end in one.
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(*spec.Script), ""))
		if err != nil {
			r.fault(field, "is not base64 (%v): write the plain text to %s instead", err, sourceField)
			return nil, field
		}
		code = decoded
	default:
		r.fault(sourceField, "is missing: add one of source (plain text) and script (base64)")
		return nil, sourceField
	}
	r.text(code, field, limits)
	return code, field
}

// text checks what can be said of a source without compiling it.
func (r *reader) text(code []byte, field string, limits script.Limits) {
	most := limits.OrDefaults().SourceBytes
	switch nul := bytes.IndexByte(code, 0); {
	case len(bytes.TrimSpace(code)) == 0:
		r.fault(field, "is empty: a script has at least one statement")
	case len(code) > most:
		r.fault(field, "the source has %d bytes and may have %d: shorten it, or raise spec.limits.sourceBytes (at most %d)",
			len(code), most, script.MaxSourceBytes)
	case nul >= 0:
		r.faultAt(code, nul, field, "a NUL byte: a script is text")
	case !utf8.Valid(code):
		r.faultAt(code, firstInvalid(code), field, "not valid UTF-8: save it as UTF-8")
	}
}

func (r *reader) faultAt(code []byte, offset int, field, message string) {
	before := code[:offset]
	r.faults = append(r.faults, &script.Error{
		Kind: script.Invalid, Field: field, Message: message,
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: offset - bytes.LastIndexByte(before, '\n'),
	})
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}
