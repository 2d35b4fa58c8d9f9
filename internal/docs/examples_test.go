package docs_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	block = regexp.MustCompile("(?s)```(lua|yaml)\n(.*?)```")
	// claim is the first line of a Lua block: what it does with which arguments.
	claim = regexp.MustCompile(`^-- (handle|chunk|on_response)\((.*)\) (returns|fails with) (.*)\n`)
	// logged is a line behind it: what the example logs.
	logged = regexp.MustCompile(`(?m)^-- logs (info|warn|error): (.*)\n`)
)

// stored is what docs/api/kv.md says that there are.
var stored = map[string]string{
	"flags": `{"beta":true,"percent":5}`, "motd": "hello", "users/ann": `{"plan":"pro"}`, "users/bob": `{"plan":"free"}`,
}

// TestExamplesRun runs every block of Lua, which has to do what its first line
// says, and reads every manifest.
func TestExamplesRun(t *testing.T) {
	ran := 0
	for page, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			language, code := m[1], m[2]
			if language == "yaml" && strings.Contains(code, "kind: "+manifest.ChangeSetKind) {
				if _, err := manifest.ParseChangeSet(page, []byte(code), "../../examples/changeset"); err != nil {
					t.Errorf("%s: %v\n%s", page, err, code)
				}
				continue
			}
			if language == "yaml" {
				if _, err := manifest.Parse(page, []byte(code), t.TempDir()); err != nil && strings.Contains(code, "LuaScript") {
					t.Errorf("%s: %v\n%s", page, err, code)
				}
				continue
			}
			ran++
			said := claim.FindStringSubmatch(code)
			if said == nil {
				t.Errorf("%s: a block of Lua does not say first what it does:\n%s", page, code)
				continue
			}
			want := said[3] + " " + said[4]
			for _, line := range logged.FindAllStringSubmatch(code, -1) {
				want += "\nlogs " + line[1] + ": " + line[2]
			}
			if got := outcome(t, said[1], said[2], code); got != want {
				t.Errorf("%s: it %s, not %s:\n%s", page, got, want, code)
			}
		}
	}
	if ran < 5 {
		t.Errorf("found %d examples: does the pattern still match?", ran)
	}
}

// outcome runs code and says what it did as a claim does.
func outcome(t *testing.T, entrypoint, args, code string) string {
	t.Helper()
	onResponse := entrypoint == engine.OnResponse
	switch {
	case entrypoint == "chunk":
		entrypoint = ""
	case onResponse:
		entrypoint = "handle"
	}
	program, err := lua.New().Compile(engine.Source{Code: []byte(code), Entrypoint: entrypoint})
	if err != nil {
		return "does not compile: " + err.Error()
	}
	var values []json.RawMessage
	if err := json.Unmarshal([]byte("["+args+"]"), &values); err != nil {
		t.Fatalf("arguments %s: %v", args, err)
	}
	host := &enginetest.Host{Values: map[string]map[string]string{"acme": stored}}
	call := &engine.Invocation{Tenant: "acme", Host: host, OnResponse: onResponse}
	for _, v := range values {
		call.Args = append(call.Args, v)
	}
	var result engine.Result
	if err := program.Run(t.Context(), call, &result); err != nil {
		return "fails with " + string(script.KindOf(err)) + ": " + err.Error()
	}
	var all [][]byte
	for i := range result.Len() {
		all = append(all, result.Value(i))
	}
	said := "returns " + string(bytes.Join(all, []byte(", ")))
	for _, line := range host.Lines() {
		said += "\nlogs " + string(line.Level) + ": " + line.Message
	}
	return said
}
