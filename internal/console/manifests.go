package console

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	consolev1 "github.com/scriptorium-dev/scriptorium/proto/console/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// manifestText names what is parsed. It has no folder, so nothing in it can name a file.
const manifestText = "manifest.yaml"

// manifests returns the handlers of the service scriptorium.console.v1.Manifests.
func manifests() map[string]http.Handler {
	limits := connect.WithReadMaxBytes(maxMessage)
	return map[string]http.Handler{
		consolev1.Manifests_Parse_FullMethodName:  connect.NewUnaryHandler(consolev1.Manifests_Parse_FullMethodName, parseManifest, limits),
		consolev1.Manifests_Format_FullMethodName: connect.NewUnaryHandler(consolev1.Manifests_Format_FullMethodName, formatManifest, limits),
	}
}

func parseManifest(_ context.Context, r *connect.Request[consolev1.ParseRequest]) (*connect.Response[consolev1.ParseResponse], error) {
	source := r.Msg.Source
	m, err := manifest.ParseAlone(manifestText, []byte(r.Msg.GetText()), source)
	if err != nil {
		return connect.NewResponse(&consolev1.ParseResponse{Problems: problems(err)}), nil
	}
	answer := &consolev1.ParseResponse{Script: fromManifest(&m)}
	if _, line, ok := m.SourceLine(1); ok && source == nil && m.Source != nil {
		answer.SourceLine = int32(line)
	}
	return connect.NewResponse(answer), nil
}

// maxProblems is how many faults of a text people are shown.
const maxProblems = 100

// problems returns the faults that err joins.
func problems(err error) (all []*scriptv1.Error) {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, one := range list[:min(len(list), maxProblems)] {
		fault := &scriptv1.Error{Kind: string(script.Invalid), Message: one.Error()}
		if e, ok := errors.AsType[*manifest.Error](one); ok {
			fault.Field, fault.Message, fault.Line, fault.Column = e.Field, e.Message, int32(e.Line), int32(e.Column)
		}
		all = append(all, fault)
	}
	return all
}

// fromManifest returns the request that publishes the manifest.
func fromManifest(m *manifest.Manifest) *registryv1.PublishRequest {
	p := m.Publish()
	return &registryv1.PublishRequest{
		Tenant: p.Name.Tenant, Name: p.Name.Script, Source: p.Source, Engine: p.Engine, Entrypoint: p.Entrypoint,
		Settings: wire.FromSettings(*p.Settings), Enabled: p.Enabled, Pin: p.Pin, Signature: p.Signature,
	}
}

func formatManifest(_ context.Context, r *connect.Request[consolev1.FormatRequest]) (*connect.Response[consolev1.FormatResponse], error) {
	m, err := toManifest(r.Msg.GetScript())
	if err != nil {
		return nil, failure(err)
	}
	form := manifest.Form{Previous: []byte(r.Msg.GetPrevious()), WithoutSource: r.Msg.GetWithoutSource()}
	object, isScript := strings.CutPrefix(r.Msg.GetOwner(), script.ScriptOwner)
	if isScript {
		form.Kind = manifest.Kind
	} else if object, isScript = strings.CutPrefix(r.Msg.GetOwner(), script.LuaScriptOwner); isScript {
		form.Kind = manifest.LuaKind
	}
	if isScript {
		form.Namespace, _, _ = strings.Cut(object, "/")
	}
	text, err := manifest.Format(&m, form)
	if err != nil {
		return nil, failure(err)
	}
	return connect.NewResponse(&consolev1.FormatResponse{Text: string(text)}), nil
}

// toManifest returns the manifest that p publishes. What is absent has its default.
func toManifest(p *registryv1.PublishRequest) (manifest.Manifest, error) {
	settings, err := wire.ToSettings(p.GetSettings())
	if err != nil {
		return manifest.Manifest{}, script.Errorf(script.Invalid, "script.settings", "%w", err)
	}
	m := manifest.Manifest{
		Name: script.Name{Tenant: p.GetTenant(), Script: p.GetName()}, Source: p.GetSource(), Engine: p.GetEngine(), Entrypoint: manifest.DefaultEntrypoint,
		Enabled: p == nil || p.Enabled == nil || p.GetEnabled(), Pin: p.GetPin(), Settings: settings, Signature: p.GetSignature(),
	}
	if p != nil && p.Entrypoint != nil {
		m.Entrypoint = p.GetEntrypoint()
	}
	return m, nil
}
