//go:build e2e

package e2e_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
)

// Scripts of the other runtimes. Gateways call them all the time, and find them during engines alone.
const (
	module = "module"
	policy = "policy"
)

// engines has a WebAssembly module and a Rego policy answer on each node, beside the script in Lua.
func (w *world) engines(t *testing.T) {
	bytes := sdkbuild.Module(t, "c", "route") // about 20 kB
	before := w.calls(t)
	for name, spec := range map[string][]string{
		module: {
			"  runtime: wasm",
			"  wasm: {reuse: true}",
			"  config: {default: web}",
			"  script: " + base64.StdEncoding.EncodeToString(bytes),
		},
		policy: {
			"  runtime: rego",
			"  source: |",
			"    package e2e.policy",
			`    decision := sprintf("%s %s is allowed", [input.method, input.path])`,
		},
	} {
		lines := append([]string{
			"apiVersion: scriptorium.dev/v1alpha1",
			"kind: Script",
			"metadata: {name: " + name + ", namespace: " + kube.TestNamespace + "}",
			"spec:",
			"  tenantId: " + tenant,
		}, spec...)
		w.kubectl(t, strings.Join(lines, "\n")+"\n", "apply", "-f", "-")
	}
	for name, want := range map[string]string{module: `{"upstream":"web"}`, policy: "GET / is allowed"} {
		w.kubectl(t, "", "-n", kube.TestNamespace, "wait", "--for=condition=Converged", "--timeout=60s", "scripts.scriptorium.dev/"+name)
		w.everywhere(t, name, sight.State{Content: want, Version: 1})
	}
	w.show(t, "-n", kube.TestNamespace, "get", "scripts.scriptorium.dev")
	w.kubectl(t, "", "-n", kube.TestNamespace, "delete", "scripts.scriptorium.dev", module, policy, "--timeout=60s")
	for _, name := range []string{module, policy} {
		w.everywhere(t, name, sight.State{Failure: "NOTFOUND"})
	}
	w.noneFailed(t, before, "")
}
