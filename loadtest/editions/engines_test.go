package editions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// answering is a WebAssembly module whose handle answers with two digits.
func answering(digits string) []byte {
	return []byte("\x00asm\x01\x00\x00\x00" +
		"\x01\x0c\x02\x60\x01\x7f\x01\x7f\x60\x02\x7f\x7f\x01\x7e" + // (i32) -> i32, (i32, i32) -> i64
		"\x03\x03\x02\x00\x01" +
		"\x05\x03\x01\x00\x01" +
		"\x07\x27\x03\x06memory\x02\x00\x11scriptorium_alloc\x00\x00\x06handle\x00\x01" +
		"\x0a\x11\x02\x05\x00\x41\x80\x08\x0b\x09\x00\x42\x82\x80\x80\x80\xc0\x0c\x0b" + // 1024, and 2 bytes at 100
		"\x0b\x09\x01\x00\x41\xe4\x00\x0b\x02" + digits)
}

// deciding is a policy whose rule returns the number.
func deciding(number int) []byte {
	return fmt.Appendf(nil, "package acme.route\n\ndecision := %d\n", number)
}

// publishIn publishes acme/route in another language.
func (r *registry) publishIn(engine string, source []byte, plan script.Plan) {
	r.t.Helper()
	_, err := r.Publish(r.t.Context(), registryclient.PublishRequest{
		Name: route, Engine: engine, Source: source, Write: byAnn, Settings: &script.Settings{Rollout: plan},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestEnginesBesideAnOlderAgent: it keeps the version in Lua, and the registry names it. Once it is upgraded, it runs the
// latest version, from the folder that the edition before has left.
func TestEnginesBesideAnOlderAgent(t *testing.T) {
	for engine, version := range map[string]struct {
		source []byte
		want   string
	}{
		script.EngineWasm: {answering("42"), "42"},
		script.EngineRego: {deciding(42), "42"},
	} {
		t.Run(engine, func(t *testing.T) {
			w := start(t)
			r := w.registry(newer)
			a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
			r.publish(route, 1, script.Plan{})
			w.answers(a, "1")
			r.publishIn(engine, version.source, script.Plan{})
			w.answers(b, version.want)
			r.failing(engine, "a: acme/route")
			w.answers(a, "1")
			r.publish(route, 3, script.Plan{})
			w.answers(a, "3")
			r.failing("")
			r.publishIn(engine, version.source, script.Plan{})
			r.failing(engine, "a: acme/route")
			w.answers(a, "3")
			w.nodes["a"].stop()
			a = w.agent(newer, "a", r)
			w.answers(a, version.want)
			r.failing("")
		})
	}
}

// TestARolloutToAnEngineAndAnOlderAgent: a candidate that the older agent is to run first, and cannot run, waits. Once the
// agent is upgraded, a rollout passes.
func TestARolloutToAnEngineAndAnOlderAgent(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	a, b := w.agent(older, "a", r), w.agent(newer, "b", r)
	r.publish(route, 1, script.Plan{})
	for _, agent := range []*agentclient.Client{a, b} {
		w.answers(agent, "1")
	}
	first := script.Plan{Steps: []script.Step{{Selector: "zone=a"}}}
	r.publishIn(script.EngineWasm, answering("42"), first)
	r.failing(script.EngineWasm, "a: acme/route")
	release := r.is(route, "the candidate is in its step", inStep(1))
	if release.Active.Number != 1 || release.Candidate.Failed != "" {
		t.Errorf("version %d is live, the candidate is %+v", release.Active.Number, release.Candidate)
	}
	w.answers(a, "1")
	w.answers(b, "1")
	w.nodes["a"].stop()
	a = w.agent(newer, "a", r)
	r.publishIn(script.EngineWasm, answering("43"), first)
	r.live(route, 3)
	w.answers(a, "43")
	w.answers(b, "43")
}

// TestEnginesWhileAnOlderRegistryWrites: it drops what it does not know of a version. Agents then run what the registry has, or
// keep what they run.
func TestEnginesWhileAnOlderRegistryWrites(t *testing.T) {
	w := start(t)
	r := w.registry(newer)
	old := w.registry(older)
	a := w.agent(newer, "a", r, old)
	r.publishIn(script.EngineRego, deciding(1), script.Plan{})
	w.answers(a, "1")
	old.rewrites()
	w.answers(a, "1")
	old.stop()
	r.leads()
	r.publishIn(script.EngineRego, deciding(2), script.Plan{})
	w.answers(a, "2")
	r.failing("")
}

// TestEnginesOnAnOlderRegistry: it refuses a script in another language than Lua, and keeps the version before.
func TestEnginesOnAnOlderRegistry(t *testing.T) {
	w := start(t)
	r := w.registry(older)
	a := w.agent(newer, "a", r)
	r.publish(route, 1, script.Plan{})
	w.answers(a, "1")
	dir := t.TempDir()
	for engine, source := range map[string][]byte{script.EngineWasm: answering("42"), script.EngineRego: deciding(42)} {
		file := filepath.Join(dir, engine+".yaml")
		text := "apiVersion: scriptorium.dev/v1alpha1\nkind: Script\nmetadata: {name: " + route.Script + "}\nspec: {tenantId: " + route.Tenant + ", runtime: " + engine + ", sourceFile: source}\n"
		for name, content := range map[string][]byte{file: []byte(text), filepath.Join(dir, "source"): source} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		said, err := r.scriptctl(newer, "publish", "-f", file)
		if err == nil || !strings.Contains(said, engine) {
			t.Errorf("%s: it said %s, %v", engine, said, err)
		}
		if x, err := r.Get(t.Context(), route); err != nil || x.Latest != 1 {
			t.Errorf("%s: the registry has %+v, %v", engine, x, err)
		}
		w.answers(a, "1")
	}
}
