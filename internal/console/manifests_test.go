package console_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	consolev1 "github.com/scriptorium-dev/scriptorium/proto/console/v1"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

const greet = `apiVersion: scriptorium.dev/v1alpha1
kind: Script
metadata:
  name: greet
spec:
  tenantId: acme
  limits:
    timeout: 50ms # enough
  source: |
    function handle() return 1 end
`

// manifests calls a method of the console's own service.
func manifests[Req, Resp any](f *fixture, browser connect.HTTPClient, method string, request *Req) (*Resp, error) {
	resp, err := connect.NewClient[Req, Resp](browser, f.URL()+"/scriptorium.console.v1.Manifests/"+method).CallUnary(f.t.Context(), connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

// TestManifests: text becomes a request that publishes, a request becomes text, and faults have their places.
func TestManifests(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	parse := func(r *consolev1.ParseRequest) *consolev1.ParseResponse {
		t.Helper()
		answer, err := manifests[consolev1.ParseRequest, consolev1.ParseResponse](f, browser, "Parse", r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	format := func(r *consolev1.FormatRequest) string {
		t.Helper()
		answer, err := manifests[consolev1.FormatRequest, consolev1.FormatResponse](f, browser, "Format", r)
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetText()
	}
	parsed := parse(&consolev1.ParseRequest{Text: greet})
	if parsed.GetSourceLine() != 10 || len(parsed.GetProblems()) > 0 {
		t.Errorf("%v: want the source in line 10", parsed)
	}
	parsed.Script.Author = "ann"
	if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, browser, "Publish", parsed.GetScript()); err != nil {
		t.Fatalf("publish what was parsed: %v", err)
	}
	parsed.Script.Settings.Limits.Instructions = 77
	text := format(&consolev1.FormatRequest{Script: parsed.GetScript(), Previous: greet, Owner: "luascript/shop/greet"})
	for _, want := range []string{"kind: LuaScript", "namespace: shop", "# enough", "instructions: 77"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	beside := format(&consolev1.FormatRequest{Script: parsed.GetScript(), WithoutSource: true})
	again := parse(&consolev1.ParseRequest{Text: beside, Source: parsed.GetScript().GetSource()}).GetScript()
	again.Author = "ann"
	if !proto.Equal(again, parsed.GetScript()) {
		t.Errorf("%v became %v", parsed.GetScript(), again)
	}
	wrong := parse(&consolev1.ParseRequest{Text: strings.Replace(greet, "source: |", "sourceFile: /etc/passwd\n  entrypont: x\n  x: |", 1)}).GetProblems()
	if len(wrong) != 3 || wrong[0].GetLine() != 9 || wrong[0].GetField() != "spec.sourceFile" || !strings.Contains(wrong[0].GetMessage(), "put the text") {
		t.Errorf("%v: want three problems, the first in line 9", wrong)
	}
	if _, err := manifests[consolev1.ParseRequest, consolev1.ParseResponse](f, f.browser(), "Parse", &consolev1.ParseRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a session: %v", err)
	}
	_, err := manifests[consolev1.FormatRequest, consolev1.FormatResponse](f, browser, "Format", &consolev1.FormatRequest{Owner: "luascript/shop/x", Script: &registryv1.PublishRequest{Engine: "rego"}})
	if detail(t, err).GetField() != "engine" {
		t.Errorf("a policy as a LuaScript: %v", err)
	}
}
