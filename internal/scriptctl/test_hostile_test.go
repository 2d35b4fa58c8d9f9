package scriptctl_test

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

const hostileManifest = `apiVersion: scriptorium.dev/v1alpha1
kind: LuaScript
metadata: {name: hostile}
spec:
  tenantId: acme
  limits: {timeout: 50ms, instructions: 100000000, stringBytes: 1048576}
  source: |
    function handle(request)
      if request.log then log.info(request.log) end
      while request.loop do end
      if request.error then error(request.error, 0) end
      return {[request.text or "x"] = request.text}
    end
`

// hostileText has what terminals, YAML or XML take for something else, and both directives of TAP. The second is
// spelled with an escape, so that a search for open work does not find it.
var hostileText = "\x1b[31m\x7f\u0085\u009b\u2028\ufeff\uffff\r \n  # SKIP ]]> <&\"' \\# t\u006fdo\n" + strings.Repeat("k", 2000)

func hostileFolder(t *testing.T, cases ...map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"cases": cases}) // which is YAML, but for some characters
	if err != nil {
		t.Fatal(err)
	}
	var escaped strings.Builder
	for _, r := range string(text) {
		if r == 0x7f || r >= 0x80 {
			fmt.Fprintf(&escaped, `\u%04x`, r)
			continue
		}
		escaped.WriteRune(r)
	}
	return testFolder(t, map[string]string{"hostile.yaml": hostileManifest, "hostile_test.yaml": escaped.String()})
}

// TestHostileTextsInFormats: each format can be read, whatever names, messages, results and logs contain.
func TestHostileTextsInFormats(t *testing.T) {
	dir := hostileFolder(t,
		map[string]any{"name": "differs " + hostileText, "request": map[string]any{"text": hostileText, "log": hostileText}, "exactly": "x"},
		map[string]any{"name": "fails", "request": map[string]any{"error": hostileText}},
		map[string]any{"name": "fails without a message", "request": map[string]any{"error": ""}},
		map[string]any{"name": "<<", "request": map[string]any{"text": "<<"}, "exactly": "x"},
	)
	var want any
	for _, format := range []struct {
		name string
		read func([]byte, any) error
	}{{"json", json.Unmarshal}, {"yaml", yaml.Unmarshal}} {
		stdout, stderr, code := run(t, "test", dir, "-o", format.name)
		var got struct {
			Tests []struct {
				Name, Outcome, Message string
				Logs                   []struct{ Message string }
				Differences            []struct{ Pointer string }
			}
		}
		if err := format.read([]byte(stdout), &got); err != nil || code != 11 || len(got.Tests) != 4 {
			t.Fatalf("%s: exit code %d, %v\n%.2000s%s", format.name, code, err, stdout, stderr)
		}
		if want == nil {
			want = fmt.Sprint(got)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s reads as %q, want %q", format.name, got, want)
		}
	}
	stdout, _, _ := run(t, "test", dir, "-o", "junit")
	var suite struct {
		Cases []struct {
			Failure *struct{} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(stdout), &suite); err != nil || len(suite.Cases) != 4 || suite.Cases[0].Failure == nil || suite.Cases[2].Failure == nil {
		t.Errorf("%v\n%s", err, stdout)
	}
	stdout, _, _ = run(t, "test", dir)
	checkControls(t, stdout)
	if longest := slices.MaxFunc(strings.Split(stdout, "\n"), func(a, b string) int { return len(a) - len(b) }); len(longest) > 6000 {
		t.Errorf("a line has %d bytes", len(longest))
	}
}

func checkControls(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || 0x7f <= r && r < 0xa0) }); i >= 0 {
		t.Errorf("there is a control character: %q", text[i:min(len(text), i+40)])
	}
}

// TestHostileTextsInTAP: no name is a directive, so no failed test is taken for a skipped one; the blocks are YAML.
func TestHostileTextsInTAP(t *testing.T) {
	dir := hostileFolder(t, map[string]any{"name": `a \# SKIP b`, "request": map[string]any{"error": hostileText}})
	stdout, _, _ := run(t, "test", dir, "-o", "tap")
	if !strings.Contains(stdout, `not ok 1 - acme/hostile a \\\# SKIP b`+"\n") {
		t.Errorf("the name is not escaped: %s", stdout)
	}
	_, block, _ := strings.Cut(stdout, "  ---\n")
	block, _, found := strings.Cut(block, "\n  ...\n")
	var got struct{ Reasons []string }
	if err := yaml.Unmarshal([]byte(block), &got); err != nil || !found || len(got.Reasons) == 0 || !strings.HasPrefix(got.Reasons[0], "\x1b[31m\x7f") {
		t.Errorf("%v: %+v\n%q", err, got, block)
	}
}

// TestHostileNamesOfFiles: no escape sequence in the name of a file gets to the terminal.
func TestHostileNamesOfFiles(t *testing.T) {
	dir := testFolder(t, map[string]string{"\x1b[31m.yaml": hostileManifest, "\x1b[31m_test.yaml": "cases: [{name: a}]"})
	stdout, stderr, code := run(t, "test", dir)
	if code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	checkControls(t, stdout+stderr)
}

// TestLogsOfACallThatRunsAgain: a call that times out is repeated, and only the last one's lines are shown.
func TestLogsOfACallThatRunsAgain(t *testing.T) {
	dir := hostileFolder(t, map[string]any{"name": "loop", "request": map[string]any{"loop": true, "log": "once"}, "error": "TIMEOUT"})
	if all := runTests(t, 0, dir); len(all.Tests) != 1 || len(all.Tests[0].Logs) > 1 {
		t.Errorf("%+v", all)
	}
}

// TestPipesAreNotRead: a pipe among the files is an error, and not an endless wait.
func TestPipesAreNotRead(t *testing.T) {
	for _, name := range []string{"pipe.yaml", "pipe_test.yaml"} {
		dir := testFolder(t, map[string]string{"hostile.yaml": hostileManifest})
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := run(t, "test", dir); code != 2 || !strings.Contains(stderr, name+": cannot be read: is not a regular file") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
	}
}

// TestNoNameMatches: tests that --run leaves out are not missing.
func TestNoNameMatches(t *testing.T) {
	dir := hostileFolder(t, map[string]any{"name": "a"})
	if _, stderr, code := run(t, "test", dir, "--run", "b"); code != 11 || !strings.Contains(stderr, "no name of a test matches --run b") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// TestInterruptedTests: an interruption is no fault of a script, and has no exit code of one.
func TestInterruptedTests(t *testing.T) {
	dir := hostileFolder(t, map[string]any{"name": "a", "request": map[string]any{"loop": true}})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var out, problems strings.Builder
	code := scriptctl.Run(ctx, scriptctl.Streams{Out: &out, Err: &problems}, []string{"test", dir})
	if code != 1 || problems.String() != "error: the tests were interrupted: interrupt signal received\n" || out.Len() > 0 {
		t.Errorf("exit code %d, %s%s", code, &out, &problems)
	}
}
