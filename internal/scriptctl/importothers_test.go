package scriptctl_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// imported imports a folder or a file of another project, and runs the tests that come out. It returns how many there
// are, and what is not carried over.
func imported(t *testing.T, project, path string) (tests int, left string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	stdout, stderr, code := run(t, "import", project, path, "--tenant", "acme", "--out", out, "-o", "json")
	var all struct {
		Left []struct {
			File   string
			Line   int
			Reason string
		}
	}
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, stdout, stderr)
	}
	for _, l := range all.Left {
		left += l.Reason + "\n"
	}
	if files, _ := filepath.Glob(filepath.Join(out, "*_test.yaml")); len(files) == 0 {
		return 0, left
	}
	return runTests(t, 0, out).Passed, left
}

// The projects take a null member for one that is not there, so their tests do not tell them apart.
func TestImportedTestsWithNulls(t *testing.T) {
	argo := testFolder(t, map[string]string{
		"apps/Job/actions/discovery.lua": `return {resume = {}}`,
		"apps/Job/actions/resume/action.lua": `obj.spec.paused = false
return obj`,
		"apps/Job/actions/action_test.yaml":  "actionTests:\n- {action: resume, inputPath: testdata/in.yaml, expectedOutputPath: testdata/out.yaml}\n",
		"apps/Job/actions/testdata/in.yaml":  "{kind: Job, metadata: {name: a, labels: null}, spec: {paused: true, list: [{a: null}]}}\n",
		"apps/Job/actions/testdata/out.yaml": "{kind: Job, metadata: {name: a, annotations: null}, spec: {paused: false, list: [{}]}}\n",
	})
	kruise := testFolder(t, map[string]string{
		"example.com/Route/trafficRouting.lua": `obj.data.spec.weight = obj.canaryWeight
return obj.data`,
		"example.com/Route/testdata/a.yaml": `rollout: {spec: {strategy: {canary: {steps: [{weight: 20}], trafficRoutings: [{service: shop}]}}}}
original: {spec: {gateways: null, http: [{match: null}]}}
expected: [{spec: {weight: 20, http: [{}]}}]
`,
	})
	karmada := testFolder(t, map[string]string{"all.yaml": `kind: ResourceInterpreterCustomization
spec:
  target: {apiVersion: example.com/v1, kind: Database}
  customizations:
    retention: {luaScript: "function Retain(desired, observed) desired.spec.paused = observed.spec.paused return desired end"}
---
name: retain
desiredObj: {apiVersion: example.com/v1, kind: Database, spec: {a: null, replicas: 1}}
observedObj: {apiVersion: example.com/v1, kind: Database, spec: {paused: true}}
operation: Retain
output: {retained: {apiVersion: example.com/v1, kind: Database, spec: {paused: true, replicas: 1}}}
`})
	for project, dir := range map[string]string{"argocd": argo, "kruise": kruise, "karmada": karmada} {
		if tests, left := imported(t, project, dir); tests != 1 || left != "" {
			t.Errorf("%s: %d tests passed, want 1; not carried over: %s", project, tests, left)
		}
	}
}

// TestImportedActionsThatCreate: Argo CD's tests name what an action creates as k8sOperation and unstructuredObj. They
// compare no metadata of Jobs and Workflows, whose names hold times, and no member that is not expected.
func TestImportedActionsThatCreate(t *testing.T) {
	files := map[string]string{
		"batch/CronJob/actions/discovery.lua": `return {["create-job"] = {}}`,
		"batch/CronJob/actions/create-job/action.lua": `local job = {apiVersion = "batch/v1", kind = "Job", spec = obj.spec.jobTemplate.spec}
job.metadata = {name = obj.metadata.name .. os.date("-%Y%m%d%H%M")}
return {{operation = "create", resource = job}}`,
		"batch/CronJob/actions/action_test.yaml": "actionTests:\n- {action: create-job, inputPath: testdata/in.yaml, expectedOutputPath: testdata/job.yaml}\n",
		"batch/CronJob/actions/testdata/in.yaml": "{kind: CronJob, metadata: {name: hello}, spec: {jobTemplate: {spec: {ttl: 100, image: busybox}}}}\n",
		"batch/CronJob/actions/testdata/job.yaml": `- k8sOperation: create
  unstructuredObj: {apiVersion: batch/v1, kind: Job, metadata: {name: hello-00000000000, labels: {a: b}}, spec: {image: busybox}}
`,
	}
	if tests, left := imported(t, "argocd", testFolder(t, files)); tests != 1 || left != "" {
		t.Errorf("%d tests passed, want 1; not carried over: %s", tests, left)
	}
	const expected = "batch/CronJob/actions/testdata/job.yaml"
	for _, wrong := range []string{
		strings.Replace(files[expected], "image: busybox", "image: alpine", 1),
		strings.Replace(files[expected], "k8sOperation: create", "k8sOperation: patch", 1),
		files[expected] + "- {k8sOperation: create, unstructuredObj: {kind: Job}}\n",
	} {
		changed := map[string]string{expected: wrong}
		for name, text := range files {
			if name != expected {
				changed[name] = text
			}
		}
		if tests, left := imported(t, "argocd", testFolder(t, changed)); tests != 0 || !strings.Contains(left, "fails here") {
			t.Errorf("%s\n%d tests passed, want 0; not carried over: %s", wrong, tests, left)
		}
	}
}

// TestImportedCJSON: what Redis' cjson has and json has not is named, and so is null, which Redis' scripts see.
func TestImportedCJSON(t *testing.T) {
	dir := testFolder(t, map[string]string{"a.lua": `cjson.encode_keep_buffer(true)
local v = cjson.decode(ARGV[1])
if v.x == cjson.null then return cjson.encode({}) end
return v.x
`})
	_, left := imported(t, "redis", filepath.Join(dir, "a.lua"))
	if !strings.Contains(left, "cjson.encode_keep_buffer: ") || !strings.Contains(left, "cjson.null: ") || strings.Count(left, "\n") != 2 {
		t.Errorf("not carried over: %s", left)
	}
}
