package hostlib_test

import (
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
)

func TestKube(t *testing.T) {
	const template = `{"spec":{
		"containers":[
			{"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"1","memory":"128Mi","example.com/gpu":"1"}},
			 "env":[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"settings","key":"a"}}},{"name":"B","value":"b"}],"envFrom":[{"secretRef":{"name":"token"}}]},
			{"resources":{"requests":{"cpu":"0.25"}}}],
		"initContainers":[{"resources":{"requests":{"cpu":"300m","memory":"1Gi"}}}],
		"overhead":{"cpu":"50m"},"nodeSelector":{"zone":"a"},"tolerations":[{"key":"x","operator":"Exists"}],"serviceAccountName":"shop",
		"volumes":[{"configMap":{"name":"settings"}},{"persistentVolumeClaim":{"claimName":"data"}},{"projected":{"sources":[{"secret":{"name":"key"}}]}}],
		"imagePullSecrets":[{"name":"pull"}]}}`
	e := lua.New()
	for body, want := range map[string]string{
		`return kube.resourceAdd("100m", "0.9", nil, "1")`: `"2"`,
		`return kube.resourceAdd("64Mi", "1Gi")`:           `"1088Mi"`,
		`return kube.resourceAdd()`:                        `"0"`,
		`return kube.resourceAdd("1x")`:                    `SCRIPT: bad argument #1 to 'kube.resourceAdd' (is no quantity: want one such as 100m, 2 or 64Mi)`,
		`return kube.accuratePodRequirements(a)`:           `{"nodeClaim":{"nodeSelector":{"zone":"a"},"tolerations":[{"key":"x","operator":"Exists"}]},"resourceRequest":{"cpu":"400m","example.com/gpu":"1","memory":"1Gi"}}`,
		`return kube.accuratePodRequirements({})`:          `{}`,
		`return kube.accuratePodRequirements(1)`:           `SCRIPT: bad argument #1 to 'kube.accuratePodRequirements'`,
		`return kube.accuratePodRequirements({spec = {containers = {{resources = {requests = {cpu = "a"}}}}}})`: `SCRIPT: the amount a of cpu is no quantity`,
		`return kube.getPodDependencies(a, "prod")`: `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"prod","name":"settings"},{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"prod","name":"data"},` +
			`{"apiVersion":"v1","kind":"Secret","namespace":"prod","name":"key"},{"apiVersion":"v1","kind":"Secret","namespace":"prod","name":"pull"},{"apiVersion":"v1","kind":"Secret","namespace":"prod","name":"token"},` +
			`{"apiVersion":"v1","kind":"ServiceAccount","namespace":"prod","name":"shop"}]`,
		`return kube.getPodDependencies({})`: `[]`,
		// Templates of Kubernetes have numbers for quantities, and null for what is not set.
		`return kube.accuratePodRequirements({spec = {containers = {{resources = {requests = {cpu = 1, memory = 0.5}}}}}})`: `{"resourceRequest":{"cpu":"1","memory":"500m"}}`,
		`return kube.accuratePodRequirements(json.decode('{"spec":{"containers":[{"resources":{"limits":null,"requests":{"cpu":"1","memory":null}}}],"overhead":{"cpu":null},` +
			`"nodeSelector":{"a":null,"b":"c"},"tolerations":[{"key":"x","value":null}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}}}}'))`: `{"nodeClaim":{"nodeSelector":{"b":"c"},"tolerations":[{"key":"x"}]},"resourceRequest":{"cpu":"1"}}`,
	} {
		got := luatest.Outcome(t, e, `local kube = require("kube") function handle(a) `+body+` end`, "", template)
		if strings.HasPrefix(want, "SCRIPT") {
			got = got[:min(len(got), len(want))]
		}
		if got != want {
			t.Errorf("%s\n= %s\nwant %s", body, got, want)
		}
	}
}
