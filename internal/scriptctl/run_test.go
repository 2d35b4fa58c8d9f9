package scriptctl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// shellWord is a word of a command line in a page.
var shellWord = regexp.MustCompile(`(?:'[^']*'|[^'\s])+`)

// TestPages: the transcripts of the pages are what the commands print. Of what bench prints, only the first words are
// known.
func TestPages(t *testing.T) {
	slower := map[string]string{"slower.lua": "function handle(request) for i = 1, 1000 do end return {upstream = 'fast'} end"}
	for page, files := range map[string]map[string]string{"running-scripts": slower, "importing-scripts": {}, "krm": {}} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile("../../docs/" + page + ".md")
			if err != nil {
				t.Fatal(err)
			}
			followPage(t, string(text), files)
		})
	}
}

// shownFile is a file that a page shows, below its name.
var shownFile = regexp.MustCompile("(?s)`([^`\n]+)`:\n\n```\\w+\n(.*?)```")

// followPage writes the files that the page shows, and some more, and runs its commands.
func followPage(t *testing.T, page string, files map[string]string) {
	t.Helper()
	for _, m := range shownFile.FindAllStringSubmatch(page, -1) {
		files[m[1]] = m[2]
	}
	var transcripts []string
	for _, m := range regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if m[1] == "" {
			transcripts = append(transcripts, strings.Split(strings.TrimPrefix(m[2], "$ "), "\n$ ")...)
		}
	}
	if len(transcripts) < 3 {
		t.Fatalf("found %d commands", len(transcripts))
	}
	t.Chdir(testFolder(t, files))
	for _, transcript := range transcripts {
		command, want, _ := strings.Cut(strings.TrimSuffix(transcript, "\n")+"\n", "\n")
		var args []string
		for _, word := range shellWord.FindAllString(command, -1)[1:] {
			args = append(args, strings.ReplaceAll(word, "'", ""))
		}
		input, shown := typed(want)
		if i := slices.Index(args, "<"); i >= 0 {
			input, args = files[args[i+1]], args[:i]
		}
		var out bytes.Buffer
		scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(input), Out: &out, Err: &out, InTerminal: true}, args)
		got := out.String()
		if args[0] == "bench" {
			got, shown = firstWords(got), firstWords(shown)
		}
		if got != shown {
			t.Errorf("%s: printed\n%s\nwant\n%s", command, got, shown)
		}
	}
}

// typed returns what a person types in a transcript, and what is printed between that.
func typed(transcript string) (input, printed string) {
	for line := range strings.Lines(transcript) {
		prompt, text, ok := strings.Cut(line, " ")
		if !ok || prompt == "" || strings.Trim(prompt, ">") != "" {
			printed += line
			continue
		}
		input, printed = input+text, printed+prompt+" "
	}
	return input, printed
}

func firstWords(text string) (words string) {
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(line, " ")
		words += strings.TrimSpace(word) + "\n"
	}
	return words
}

// runInput runs scriptctl run -i with lines of a pipe.
func runInput(t *testing.T, input string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = scriptctl.Run(t.Context(), scriptctl.Streams{In: strings.NewReader(input), Out: &out, Err: &errs}, append([]string{"run", "-i"}, args...))
	return out.String(), errs.String(), code
}

// patientManifest is testedManifest with time for a busy machine.
var patientManifest = strings.Replace(testedManifest, "spec:\n", "spec:\n  limits: {timeout: 10s}\n", 1)

func TestRun(t *testing.T) {
	dir := testFolder(t, map[string]string{
		"route.yaml": patientManifest, "two.yaml": patientManifest + "---\n" + strings.ReplaceAll(patientManifest, "name: route", "name: other"),
		"plain.lua": "function handle(...) return ... end", "broken.lua": "function handle(", "spin.lua": "function handle() log.info('once') while true do end end",
		"value": "from a file", "route_test.yaml": passingCases,
	})
	t.Chdir(dir)
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"plain.lua", "1", "[]", "null"}, 0, "1\n[]\nnull\n", ""},
		{[]string{"plain.lua"}, 0, "", ""},
		{[]string{"plain.lua", "--", "-1"}, 0, "-1\n", ""},
		{[]string{"plain.lua", "text"}, 2, "", `error: argument 1, "text", is not JSON: `},
		{[]string{"route.yaml", `{"kv":true}`, "--kv", "backend=@value"}, 0, `{"upstream":"from a file"}` + "\n", ""},
		{[]string{"route.yaml", "{}", "--seed", "7", "--now", "2026-01-31T12:00:00Z"}, 0, `{"upstream":"shared","at":1769860800,"dice":995}` + "\n", "log info: plan nil\n"},
		{[]string{"route.yaml", `{"path":"/old"}`}, 6, "", "error: SCRIPT: route.yaml:13: no route for /old\n"},
		{[]string{"spin.lua"}, 6, "", "log info: once\nerror: "},
		{[]string{"broken.lua"}, 4, "", "error: broken.lua:1:"},
		{[]string{"two.yaml", "{}", "--name", "acme/other"}, 0, `{"upstream":"shared"`, "log info: plan nil\n"},
		{[]string{"two.yaml", "{}"}, 2, "", "error: --name: is missing: two.yaml has several scripts, acme/route, acme/other\n"},
		{[]string{"two.yaml", "{}", "--name", "acme/none"}, 2, "", `error: --name: two.yaml has no script "acme/none": it has acme/route, acme/other` + "\n"},
		{[]string{"route_test.yaml"}, 2, "", "error: route_test.yaml has tests: name the manifest, or use scriptctl test\n"},
		{[]string{"plain.lua", "--kv", "text"}, 2, "", `error: --kv: "text" is no value: want KEY=TEXT, or KEY=@FILE` + "\n"},
		{[]string{"plain.lua", "--kv", "a=@none"}, 2, "", "error: --kv: open none: no such file or directory\n"},
		{[]string{"plain.lua", "--config", "[]"}, 2, "", `error: --config: "[]" is not a JSON object, `},
		{[]string{"plain.lua", "--config", " "}, 2, "", `error: --config: " " is not a JSON object, `},
		{[]string{"plain.lua", "--now", "today"}, 2, "", `error: --now: "today" is no time: want one such as `},
		{[]string{"plain.lua", "1", "-i"}, 2, "", "error: --interactive: takes no arguments of the script: "},
		{[]string{"-", "-i"}, 2, "", "error: --interactive: reads lines from standard input: name a file of the script\n"},
	} {
		stdout, stderr, code := run(t, append([]string{"run"}, tt.args...)...)
		if code != tt.code || !strings.HasPrefix(stdout, tt.stdout) || !strings.HasPrefix(stderr, tt.stderr) || tt.stderr == "" && stderr != "" || tt.stdout == "" && stdout != "" {
			t.Errorf("%q: exit code %d\n%s%s", tt.args, code, stdout, stderr)
		}
	}
}

func TestRunAsJSON(t *testing.T) {
	t.Chdir(testFolder(t, map[string]string{"route.yaml": patientManifest}))
	stdout, stderr, code := run(t, "run", "route.yaml", "{}", "-o", "json")
	var v struct {
		Script                       string
		Results                      []struct{ Upstream string }
		Instructions, AllocatedBytes uint64
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 || v.Script != "acme/route" || v.Results[0].Upstream != "shared" || v.Instructions == 0 || v.AllocatedBytes == 0 {
		t.Errorf("exit code %d, %v\n%s", code, err, stdout)
	}
	if want := `{"log":{"level":"info","message":"plan nil"}}` + "\n"; stderr != want {
		t.Errorf("standard error has %s, want %s", stderr, want)
	}
	f := failures(t, "run", "route.yaml", `{"path":"/old"}`, "-o", "json")[0]
	if e := f.Error; e.Kind != "SCRIPT" || e.File != "route.yaml" || e.Line != 13 || e.Message != "no route for /old" || f.ExitCode != 6 {
		t.Errorf("%+v", f)
	}
}

// TestRunLinesOfAPipe: lines run up to the first that fails.
func TestRunLinesOfAPipe(t *testing.T) {
	t.Chdir(testFolder(t, map[string]string{"route.yaml": patientManifest, "returns.lua": "local a = 1 function handle() end return handle"}))
	stdout, stderr, code := runInput(t, "x = {\n1}\n\nx\n  :reset\nx\nerror('no')\n5\n", "route.yaml")
	if stdout != "[1]\nnull\n" || stderr != "error: SCRIPT: input:1: no\n" || code != 6 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	stdout, stderr, code = runInput(t, "1 +\n2", "route.yaml", "-o", "json")
	if stdout != `{"script":"acme/route","results":[3]}`+"\n" || stderr != "" || code != 0 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code = runInput(t, "f(", "route.yaml"); code != 6 || !strings.HasPrefix(stderr, "error: SCRIPT: input:") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if stdout, stderr, code = runInput(t, "a", "returns.lua"); stdout != "null\n" || code != 0 || !strings.Contains(stderr, "lines do not see its local variables") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if _, stderr, code = runInput(t, strings.Repeat("x", 2<<20), "route.yaml"); code != 2 || !strings.Contains(stderr, "a line of standard input is longer than 1Mi") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestRunLinesIsInterrupted while a person thinks.
func TestRunLinesIsInterrupted(t *testing.T) {
	file := filepath.Join(testFolder(t, map[string]string{"route.yaml": patientManifest}), "route.yaml")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	prompted := writerFunc(func(p []byte) (int, error) {
		if string(p) == "> " {
			cancel()
		}
		return len(p), nil
	})
	if code := scriptctl.Run(ctx, scriptctl.Streams{In: r, Out: prompted, Err: prompted, InTerminal: true}, []string{"run", "-i", file}); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
