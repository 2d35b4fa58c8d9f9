package scriptctl_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const triedManifest = `apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route}
spec:
  tenantId: acme
  limits: {timeout: 10s}
  config: {default: shared}
  tests:
  - {name: gold is fast, request: {plan: gold}, expect: {upstream: fast}}
  - {name: silver is slow, request: {plan: silver}, expect: {upstream: slow}}
  source: |
    function handle(request)
      if request.path then error("no route for " .. request.path) end
      log.warn("plan " .. request.plan)
      return {upstream = request.plan == "gold" and "fast" or config.default}
    end
`

// TestRunOnAgent: run and test --on-agent try a script that is not published, and say where it fails in its file.
func TestRunOnAgent(t *testing.T) {
	_, dir := startStack(t, 1)
	file := filepath.Join(t.TempDir(), "route.yaml")
	if err := os.WriteFile(file, []byte(triedManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	registry := "unix:" + filepath.Join(dir, "registry.sock")
	for what, c := range map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"a call":         {[]string{"run", file, `{"plan":"gold"}`, "--on-agent"}, 0, `{"upstream":"fast"}`, "log warn: plan gold"},
		"on one agent":   {[]string{"run", file, `{"plan":"x"}`, "--on-agent=agent-1", "--config", `{"default":"slow"}`}, 0, `{"upstream":"slow"}`, ""},
		"a failure":      {[]string{"run", file, `{"path":"/old"}`, "--on-agent"}, 6, "", "route.yaml:13: no route for /old"},
		"no such agent":  {[]string{"run", file, `{}`, "--on-agent=edge-9"}, 3, "", "edge-9"},
		"tests":          {[]string{"test", file, "--on-agent"}, 11, "1 passed, 1 failed", ""},
		"one of them":    {[]string{"test", file, "--on-agent", "--run", "gold"}, 0, "1 passed, 0 failed", ""},
		"with a value":   {[]string{"run", file, `{}`, "--on-agent", "--kv", "a=b"}, 2, "", "--kv"},
		"of a lone file": {[]string{"run", "route.lua", `{}`, "--on-agent"}, 2, "", "needs a tenant"},
	} {
		out, errs, code := run(t, append(c.args, "--registry", registry)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", what, code, c.code, out, errs)
		}
	}
	out, errs, code := run(t, "run", file, `{"plan":"gold"}`, "--on-agent", "-o", "json", "--registry", registry)
	var view struct {
		Agent, Isolation string
		Instructions     uint64
		Results          []json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil || code != 0 || view.Agent != "agent-1" || view.Isolation != "shared" || view.Instructions == 0 || len(view.Results) != 1 {
		t.Errorf("as JSON: %v, %d\n%s%s", err, code, out, errs)
	}
}
