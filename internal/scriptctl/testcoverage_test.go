package scriptctl_test

import (
	"encoding/json"
	"testing"
)

// TestCoverageOfLibraries: the tests of the scripts that require a library execute it.
func TestCoverageOfLibraries(t *testing.T) {
	const header = "apiVersion: scriptorium.dev/v1alpha1\nkind: LuaScript\n"
	script := func(name, required, called string) string {
		return header + "metadata: {name: " + name + "}\nspec:\n  tenantId: acme\n  tests: [{name: a, expect: 1}]\n  source: |\n" +
			"    local lib = require('" + required + "')\n    function handle() return lib." + called + "() end\n"
	}
	dir := testFolder(t, map[string]string{
		"lib.yaml": header + `metadata: {name: lib}
spec:
  tenantId: acme
  library: true
  source: |
    local M = {}
    function M.one()
      return 1
    end
    function M.another()
      return 1
    end
    function M.never()
      return 2
    end
    return M
`,
		"one.yaml": script("one", "acme/lib", "one"), "another.yaml": script("another", "acme/lib", "another"),
	})
	stdout, stderr, _ := run(t, "test", dir, "--coverage", "-o", "json")
	var all struct {
		Coverage struct {
			Scripts []struct {
				Script string
				Missed []int
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	for _, s := range all.Coverage.Scripts {
		if s.Script == "acme/lib" && (len(s.Missed) != 1 || s.Missed[0] != 9) || s.Script != "acme/lib" && len(s.Missed) > 0 {
			t.Errorf("%s: the tests miss the lines %v", s.Script, s.Missed)
		}
	}
	if len(all.Coverage.Scripts) != 3 {
		t.Errorf("%s%s", stdout, stderr)
	}
}
