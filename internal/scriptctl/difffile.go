package scriptctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// exitChanged is that of diff(1): a difference was found, and no error.
const exitChanged = 1

// fileDiffView is how a manifest differs from what the registry has.
type fileDiffView struct {
	Script  string        `json:"script"`
	State   string        `json:"state"` // same, different or new
	File    string        `json:"file"`
	Line    int           `json:"line"`
	Version uint64        `json:"version,omitempty"` // that the manifest is compared with; absent for a new script
	Diff    string        `json:"diff"`              // unified, of the source; empty if it is equal
	Changes []fieldChange `json:"changes"`           // of everything else
}

// fieldChange is a field that differs. An absent value is one that there is not.
type fieldChange struct {
	Field    string          `json:"field"` // such as limits.timeout
	Registry json.RawMessage `json:"registry,omitempty"`
	File     json.RawMessage `json:"file,omitempty"`
}

// errChanged is the end of a command that found a difference, and printed it.
var errChanged = &exitError{code: exitChanged}

// diffFiles compares manifests with the registry.
func (a *app) diffFiles(ctx context.Context, files []string) error {
	manifests, err := a.loadManifests(files)
	if err != nil {
		return usage(err)
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	if err := a.resolve(ctx, manifests, true); err != nil { // a publish takes the libraries anew
		return err
	}
	views := make([]fileDiffView, 0, len(manifests))
	differs := false
	for i := range manifests {
		v, err := diffManifest(ctx, client, &manifests[i])
		if err != nil {
			return about(manifests[i].Name.String(), err)
		}
		differs = differs || v.State != "same"
		views = append(views, v)
	}
	if a.output != formatTable {
		err = a.print(views, nil)
	} else {
		for i := range views {
			err = errors.Join(err, a.writeDiff(views[i].text()))
		}
	}
	if err != nil {
		return err
	}
	if differs {
		return errChanged
	}
	return nil
}

// asDiff ends a command as diff(1) does: with 1 for a difference alone, and above for an error. It is one that the output
// is lost.
func (a *app) asDiff(err error) error {
	if out, ok := a.Out.(*output); ok && out.err != nil {
		err = out.err
	}
	if err != nil && !errors.Is(err, errChanged) && exitCode(err) == exitChanged {
		return usage(err)
	}
	return err
}

// diffManifest compares with the version that a publish compares with: the latest.
func diffManifest(ctx context.Context, client *registryclient.Client, m *manifest.Manifest) (fileDiffView, error) {
	v := fileDiffView{Script: m.Name.String(), State: "same", File: m.File, Line: m.Line, Changes: []fieldChange{}}
	release, err := client.Get(ctx, m.Name)
	if script.KindOf(err) == script.NotFound {
		v.State = "new"
		v.Diff = manifestDiff("/dev/null", new(script.Edition), m)
		v.Changes = changesOf(nil, declared(m))
		return v, nil
	}
	if err != nil {
		return v, err
	}
	v.Version = release.Latest
	if _, ok := release.Retains(v.Version); !ok {
		v.Version = release.Active.Number
	}
	ref := script.Ref{Name: m.Name, Version: v.Version}
	latest, err := client.Source(ctx, ref)
	if err != nil {
		return v, err
	}
	for i := range m.Settings.Libraries { // one of the manifests has no version before it is published
		l := &m.Settings.Libraries[i]
		for _, pinned := range latest.Spec.Libraries {
			if l.Version == 0 && l.Name == pinned.Name && l.Digest == pinned.Digest {
				l.Version = pinned.Version
			}
		}
	}
	v.Diff = manifestDiff(ref.String(), &latest, m)
	v.Changes = changesOf(current(&release, &latest), declared(m))
	if v.Diff != "" || len(v.Changes) > 0 {
		v.State = "different"
	}
	return v, nil
}

func sourceName(m *manifest.Manifest) string {
	if m.SourceFile != "" {
		return m.SourceFile
	}
	return m.File
}

// declaredView is what a manifest says beside the source.
type declaredView struct {
	specView
	Entrypoint string    `json:"entrypoint"`
	Enabled    bool      `json:"enabled"`
	Pin        uint64    `json:"version,omitempty"`
	Rollout    *planView `json:"rollout,omitempty"`
	History    int       `json:"revisionHistoryLimit"`
}

func declared(m *manifest.Manifest) *declaredView {
	v := &declaredView{specView: viewOfSpec(m.Settings.Spec), Entrypoint: m.Entrypoint, Enabled: m.Enabled, Pin: m.Pin, Rollout: viewOfPlan(m.Settings.Rollout), History: m.Settings.HistoryLimit}
	return v.complete()
}

// current is what the registry has. A hold is not what somebody declared.
func current(r *script.Release, latest *script.Edition) *declaredView {
	v := &declaredView{specView: viewOfSpec(latest.Spec), Entrypoint: latest.Entrypoint, Enabled: r.Enabled, Rollout: viewOfPlan(r.Settings.Rollout), History: r.Settings.HistoryLimit}
	switch {
	case r.Hold != nil:
		v.Pin = r.Hold.Declared
	case r.Pinned:
		v.Pin = r.Active.Number
	}
	return v.complete()
}

func (v *declaredView) complete() *declaredView {
	if v.History == 0 {
		v.History = script.DefaultHistoryLimit
	}
	return v
}

// changesOf returns the fields that differ, by their paths.
func changesOf(before, after *declaredView) []fieldChange {
	from, to := fieldsOf(before), fieldsOf(after)
	paths := slices.Collect(maps.Keys(to))
	for path := range from {
		if _, ok := to[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	changes := []fieldChange{}
	for _, path := range paths {
		if from[path] != to[path] {
			changes = append(changes, fieldChange{Field: path, Registry: json.RawMessage(from[path]), File: json.RawMessage(to[path])})
		}
	}
	return changes
}

// fieldsOf returns the JSON of all fields without fields of their own, by their paths.
func fieldsOf(v *declaredView) map[string]string {
	fields := map[string]string{}
	if v == nil {
		return fields
	}
	var whole any
	data, err := json.Marshal(v)
	if err != nil {
		return fields // JSON that the manifest's reader or the registry has checked
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if decoder.Decode(&whole) == nil {
		flatten(fields, "", whole)
	}
	return fields
}

func flatten(fields map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			flatten(fields, strings.TrimPrefix(path+"."+key, "."), inner)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, inner := range v {
			flatten(fields, fmt.Sprintf("%s[%d]", path, i), inner)
		}
		if len(v) > 0 {
			return
		}
	}
	if text, err := json.Marshal(value); err == nil {
		fields[path] = string(text)
	}
}

// text is a unified diff of the source, and then a line for each field before and after.
func (v *fileDiffView) text() string {
	if v.State == "same" {
		return ""
	}
	text := v.Diff
	if len(v.Changes) == 0 {
		return text
	}
	from := fmt.Sprintf("%s@%d settings", v.Script, v.Version)
	if v.State == "new" {
		from = "/dev/null"
	}
	text += fmt.Sprintf("--- %s\n+++ %s settings\n", from, v.File)
	for _, c := range v.Changes {
		if len(c.Registry) > 0 {
			text += "-" + c.Field + ": " + string(c.Registry) + "\n"
		}
		if len(c.File) > 0 {
			text += "+" + c.Field + ": " + string(c.File) + "\n"
		}
	}
	return text
}
