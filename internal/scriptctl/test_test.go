package scriptctl_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testedManifest = `apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: route}
spec:
  tenantId: acme
  config: {default: shared}
  tests:
  - {name: gold is fast, request: {plan: gold}, expect: {upstream: fast}}
  - {name: backend, request: {kv: true}, expect: {upstream: up}}
  source: |
    function handle(request)
      if request.path == "/old" then error("no route for " .. request.path) end
      if request.kv then return {upstream = kv.get("backend")} end
      log.info("plan " .. tostring(request.plan))
      return {upstream = request.plan == "gold" and "fast" or config.default, at = os.time(), dice = math.random(1000)}
    end
`

const passingCases = `defaults: {values: {backend: up}, now: 2026-01-31T12:00:00Z}
cases:
- {name: kv, request: {kv: true}, exactly: {upstream: up}}
- {name: old, request: {path: /old}, error: {kind: SCRIPT, line: 2, message: no route}}
- {name: others, config: {default: slow}, expect: {upstream: slow, at: 1769860800}, matches: {/upstream: ^s}}
- {name: dice, seed: 7, results: [{upstream: shared, at: 1769860800, dice: 995}]}
`

const failingCases = `cases:
- {name: another upstream, expect: {upstream: slow, gone: 1}, results: [{upstream: shared, at: 1767225600, dice: 239}, null]}
- {name: no error, error: SCRIPT}
- {name: another line, request: {path: /old}, error: {kind: SCRIPT, line: 3}}
- {name: an error, request: {path: /old}}
- {name: no match, matches: {/upstream: ^f, /nothing: x}}
- {name: no value, request: {kv: true}, expect: {upstream: up}}
`

func testFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type testsOutput struct {
	Passed, Failed, Skipped int
	Tests                   []struct {
		Name, Outcome, Message, File string
		Line                         int
		Differences                  []struct {
			Pointer   string
			Want, Got json.RawMessage
		}
		Error *struct {
			File string
			Line int
		}
		Logs []struct{ Message string }
	}
}

func runTests(t *testing.T, wantCode int, args ...string) (all testsOutput) {
	t.Helper()
	stdout, stderr, code := run(t, append([]string{"test", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != wantCode {
		t.Fatalf("exit code %d, want %d: %v\n%s%s", code, wantCode, err, stdout, stderr)
	}
	return all
}

func TestTestsThatPass(t *testing.T) {
	dir := testFolder(t, map[string]string{"route.yaml": testedManifest, "route_test.yaml": passingCases})
	all := runTests(t, 0, dir)
	if all.Passed != 5 || all.Failed != 0 || all.Skipped != 1 {
		t.Errorf("%+v", all)
	}
	// In the order of the files, and alike each time.
	if first, again := all, runTests(t, 0, dir); len(first.Tests) != 6 || first.Tests[1].Outcome != "skipped" || first.Tests[5].Name != again.Tests[5].Name || again.Tests[5].Outcome != "passed" {
		t.Errorf("%+v, and then %+v", first, again)
	}
	if some := runTests(t, 0, dir, "--run", "^gold"); len(some.Tests) != 1 || some.Tests[0].Logs[0].Message != "plan gold" {
		t.Errorf("%+v", some)
	}
}

func TestTestsThatFail(t *testing.T) {
	dir := testFolder(t, map[string]string{"route.yaml": testedManifest, "route_test.yaml": failingCases})
	all := runTests(t, 11, filepath.Join(dir, "route_test.yaml"))
	if all.Failed != 6 || len(all.Tests) != 6 {
		t.Fatalf("%+v", all)
	}
	first := all.Tests[0]
	if len(first.Differences) != 3 || first.Differences[2].Pointer != "/1" || first.Differences[1].Pointer != "/upstream" || string(first.Differences[1].Got) != `"shared"` || first.Differences[0].Got != nil || first.Line != 2 {
		t.Errorf("%+v", first)
	}
	for i, want := range map[int]string{
		1: "want an error of kind SCRIPT, got {",
		2: "want the error in line 3 of the source, got line 2",
		3: "no route for /old",
		4: `/nothing: want text that matches "x", and there is nothing; /upstream: want text that matches "^f", got "shared"`,
	} {
		if got := all.Tests[i]; !strings.Contains(got.Message, want) || got.Outcome != "failed" {
			t.Errorf("%s: %s: %q, want %q", got.Name, got.Outcome, got.Message, want)
		}
	}
	if e := all.Tests[3].Error; e == nil || filepath.Base(e.File) != "route.yaml" || e.Line != 12 {
		t.Errorf("the error is at %+v, want line 12 of the manifest", e)
	}
	stdout, stderr, code := run(t, "test", dir)
	if code != 11 || !strings.Contains(stdout, `/upstream: want "slow", got "shared"`) || !strings.Contains(stdout, "log info: plan nil") || !strings.Contains(stderr, "6 tests of 8 failed") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestFormatsOfTests(t *testing.T) {
	dir := testFolder(t, map[string]string{"route.yaml": testedManifest, "route_test.yaml": failingCases})
	stdout, _, code := run(t, "test", dir, "-o", "junit")
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Failure *struct{} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(stdout), &suite); err != nil || code != 11 || suite.Tests != 8 || suite.Failures != 6 || suite.Cases[0].Failure != nil || suite.Cases[2].Failure == nil {
		t.Errorf("%d: %+v, %v\n%s", code, suite, err, stdout)
	}
	stdout, _, _ = run(t, "test", dir, "-o", "tap")
	for _, want := range []string{"TAP version 13\n1..8\n", "\nok 1 - acme/route gold is fast\n", "\nok 2 - acme/route backend # SKIP it reads values", "\nnot ok 3 - acme/route another upstream\n  ---\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
}

func TestTestsThatCannotRun(t *testing.T) {
	broken := strings.Replace(testedManifest, "function handle", "functio handle", 1)
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		code  int
		want  string
	}{
		"no tests":       {map[string]string{"route.yaml": echoManifest}, nil, 11, "there are no tests"},
		"no manifest":    {map[string]string{"route_test.yaml": passingCases}, nil, 2, "route.yaml: cannot be read"},
		"no folder":      {nil, []string{"nowhere"}, 2, "nowhere: cannot be read"},
		"a syntax error": {map[string]string{"route.yaml": broken}, nil, 4, "route.yaml:11:"},
		"--run":          {map[string]string{"route.yaml": testedManifest}, []string{"--run", "("}, 2, "--run: is no RE2 expression"},
		"a format":       {map[string]string{"route.yaml": testedManifest}, []string{"-o", "csv"}, 2, "want table, json, yaml, junit, tap"},
	} {
		args := []string{"test"}
		if len(tt.args) != 1 {
			args = append(args, testFolder(t, tt.files))
		}
		if _, stderr, code := run(t, append(args, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
}

// TestADryRunRunsTests: publish --dry-run refuses a version whose tests fail, before it needs a registry.
func TestADryRunRunsTests(t *testing.T) {
	dir := testFolder(t, map[string]string{"route.yaml": strings.Replace(testedManifest, "upstream: fast", "upstream: slow", 1)})
	_, stderr, code := run(t, "publish", "--dry-run", dir)
	if code != 4 || !strings.Contains(stderr, `route.yaml:8: test "gold is fast" of acme/route: /upstream: want "slow", got "fast"`) || !strings.Contains(stderr, `skipped test "backend"`) {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
