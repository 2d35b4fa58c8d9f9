package scriptrepl_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/scriptrepl"
	"github.com/scriptorium-dev/scriptorium/script"
)

// session returns a session with the source, and the lines that its calls log.
func session(t *testing.T, entrypoint, source string) (*scriptrepl.Session, *[]string) {
	t.Helper()
	m := &manifest.Manifest{Name: script.Name{Tenant: "acme", Script: "route"}, SourceFile: "route.lua", Source: []byte(source), Entrypoint: entrypoint}
	m.Settings.Config = json.RawMessage(`{"default":"shared"}`)
	m.Settings.Limits.Timeout = script.MaxLimits().Timeout // the machine may be busy
	var logs []string
	s, err := scriptrepl.New(t.Context(), engines.Offline(), m, func() offline.Call {
		return offline.Call{Name: m.Name, Now: time.Unix(0, 0), Once: true, Log: func(_ engine.Level, message string) { logs = append(logs, message) }}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, &logs
}

// eval returns the results of a line, with spaces between them, or its error.
func eval(t *testing.T, s *scriptrepl.Session, line string) string {
	t.Helper()
	out, err := s.Eval(t.Context(), line)
	if err != nil {
		return string(script.KindOf(err)) + " " + err.Error()
	}
	var all [][]byte
	for _, r := range out.Results {
		all = append(all, r)
	}
	return string(bytes.Join(all, []byte(" ")))
}

const source = `local function upstream(request)
  return request.plan == "gold" and "fast" or config.default
end
function handle(request)
  log.info("handle")
  if request.path == "/old" then error("no route") end
  return {upstream = upstream(request)}
end`

func TestLines(t *testing.T) {
	s, logs := session(t, "handle", source)
	for _, step := range []struct{ line, want string }{
		{`handle({plan = "gold"})`, `{"upstream":"fast"}`},
		{`upstream({})`, `"shared"`}, // a local function
		{`1, nil, "x"`, `1 null "x"`},
		{`x = {n = 1, list = {1, 2}}`, ``},
		{`x.n = x.n + 1`, ``},
		{`x.list, x.n`, `[1,2] 2`},
		{`local y = 5 return y`, `5`},
		{`y`, `null`},
		{`-- a comment`, ``},
		{`handle({path = "/old"})`, `SCRIPT route.lua:6: no route`},
		{`x.n = 7 error("no")`, `SCRIPT input:1: no`},
		{`x.n`, `2`}, // a line that fails changes nothing
		{`os.execute("ls")`, `SCRIPT input:1: attempt to call field 'execute' (a nil value)`},
		{`end)() print((function()`, `SCRIPT input:1: unexpected 'end'`},
		{"x.n = 9\nreturn x.n, y.z", `SCRIPT input:2: attempt to index global 'y' (a nil value, key 'z')`},
		{`config.default`, `"shared"`},
		{`config.default = "slow"`, ``},
		{`upstream({})`, `"slow"`},
		{`config = {default = "slower"}`, ``},
		{`upstream({})`, `"slower"`},
		{`while true do end`, `LIMIT`},
		{`string.rep("x", 1e6)`, `LIMIT`},
		{`pairs = 1`, `SCRIPT`}, // the session needs it
		{`x.n`, `2`},
	} {
		if got := eval(t, s, step.line); got != step.want && (len(step.want) > 6 || step.want == "" || !strings.HasPrefix(got, step.want)) {
			t.Errorf("%s: %s, want %s", step.line, got, step.want)
		}
	}
	if want := []string{"handle", "handle"}; !slices.Equal(*logs, want) { // once for each line that calls it
		t.Errorf("logs %q, want %q", *logs, want)
	}
	s.Reset()
	if got := eval(t, s, "x, config.default"); got != `null "shared"` {
		t.Errorf("after a reset: %s", got)
	}
}

func TestWhatIsLost(t *testing.T) {
	s, _ := session(t, "handle", source)
	out, err := s.Eval(t.Context(), "function f() end g = {h = f} i = 1")
	if err != nil || !slices.Equal(out.Lost, []string{"f", "g"}) {
		t.Errorf("%+v, %v", out, err)
	}
	if got := eval(t, s, "f, i"); got != "null 1" {
		t.Errorf("the next line sees %s", got)
	}
}

func TestIncomplete(t *testing.T) {
	s, _ := session(t, "handle", source)
	for line, want := range map[string]bool{
		"for i = 1, 2 do": true, "x = {": true, "function f()": true, "x =": true, "1 +": true, "if a then\n  b = 1": true,
		"x = 1": false, "x = )": false, "end": false, "": false, "return": false, "for i = 1, 2 do end": false,
	} {
		if got := s.Incomplete(line); got != want {
			t.Errorf("%q is incomplete: %t", line, got)
		}
	}
}

// TestChunk: the members of the request are globals, as in a call.
func TestChunk(t *testing.T) {
	s, _ := session(t, "", `return path .. get_request_header("x-beta")`)
	for _, step := range []struct{ line, want string }{
		{`path, headers = "/cart", {["x-beta"] = "yes"}`, ``},
		{`chunk()`, `"/cartyes"`},
	} {
		if got := eval(t, s, step.line); got != step.want {
			t.Errorf("%s: %s, want %s", step.line, got, step.want)
		}
	}
}

// TestReturnAtTheEnd of a source hides its local variables.
func TestReturnAtTheEnd(t *testing.T) {
	s, _ := session(t, "handle", source+"\nreturn handle")
	if got := eval(t, s, `handle({}).upstream, upstream`); got != `"shared" null` || !s.Hidden() {
		t.Errorf("got %s, hidden: %t", got, s.Hidden())
	}
}
