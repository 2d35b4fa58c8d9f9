package engines_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTags: an agent that is built without an engine has none of what only that engine imports.
func TestTags(t *testing.T) {
	const opa, wazero, agent = "github.com/open-policy-agent/opa/", "github.com/tetratelabs/wazero", "github.com/scriptorium-dev/scriptorium/cmd/agentd"
	for tags, has := range map[string]map[string]bool{
		"":                {opa: true, wazero: true},
		"no_rego":         {opa: false, wazero: true},
		"no_rego,no_wasm": {opa: false, wazero: false},
	} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, agent)
		list.Stderr = os.Stderr
		deps, err := list.Output()
		if err != nil {
			t.Fatalf("-tags %q: %v", tags, err)
		}
		for module, want := range has {
			if got := strings.Contains("\n"+string(deps), "\n"+module); got != want {
				t.Errorf("-tags %q: it imports %s: %v, want %v", tags, module, got, want)
			}
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", os.DevNull, agent)
		if text, err := build.CombinedOutput(); err != nil {
			t.Errorf("-tags %q: %v\n%s", tags, err, text)
		}
	}
}
