package lua_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	docs "github.com/scriptorium-dev/scriptorium/internal/docs/page"
	"github.com/scriptorium-dev/scriptorium/script"
)

// compatCall is a call of a script in testdata/compat, and what has to come of it.
type compatCall struct {
	Entrypoint string            `json:"entrypoint"` // none: the members of the one argument are globals
	Args       []json.RawMessage `json:"args"`
	Results    []any             `json:"results"`
	Error      string            `json:"error"`
}

// now is how the time that an action writes down looks.
var now = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// TestCompat runs scripts as they are written for Argo CD, OpenKruise Rollouts and
// Karmada, with the default limits.
func TestCompat(t *testing.T) {
	sources, err := filepath.Glob("testdata/compat/*/*.lua")
	if err != nil || len(sources) < 16 {
		t.Fatalf("found %d scripts, %v", len(sources), err)
	}
	for _, file := range sources {
		t.Run(strings.TrimPrefix(file, "testdata/compat/"), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(strings.TrimSuffix(file, ".lua") + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var calls []compatCall
			if err := json.Unmarshal(text, &calls); err != nil {
				t.Fatal(err)
			}
			for i, call := range calls {
				call.check(t, i, source)
			}
		})
	}
}

func (c *compatCall) check(t *testing.T, i int, source []byte) {
	t.Helper()
	p, err := lua.New().Compile(engine.Source{Code: source, Entrypoint: c.Entrypoint})
	if err != nil {
		t.Fatal(err)
	}
	inv := &engine.Invocation{Tenant: "acme"}
	for _, arg := range c.Args {
		inv.Args = append(inv.Args, arg)
	}
	var res engine.Result
	err = p.Run(t.Context(), inv, &res)
	if c.Error != "" {
		if script.KindOf(err) != script.Script || !strings.Contains(err.Error(), c.Error) {
			t.Errorf("call %d: %v, want %s", i, err, c.Error)
		}
		return
	}
	if err != nil {
		t.Errorf("call %d: %v", i, err)
		return
	}
	got := make([]any, res.Len())
	for j := range got {
		text := now.ReplaceAll(res.Value(j), []byte(`"TIME"`))
		if err := json.Unmarshal(text, &got[j]); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(got, c.Results) {
		gotText, _ := json.Marshal(got)
		wantText, _ := json.Marshal(c.Results)
		t.Errorf("call %d:\n got %s\nwant %s", i, gotText, wantText)
	}
}

// TestNullElsewhere: the table of docs/lua.md about null is true, there and here.
func TestNullElsewhere(t *testing.T) {
	section, err := docs.Section(page(t), "null members")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("For the object `(.*)`:").FindStringSubmatch(section)
	if m == nil {
		t.Fatal("the page does not say which object: is it written in another way?")
	}
	rows := docs.Rows(section)
	if len(rows) < 6 {
		t.Fatalf("found %d rows: is the page written in another way?", len(rows))
	}
	for _, row := range rows {
		body := "return " + strings.Trim(row[0], "`")
		if got := elsewhere(t, body, m[1]); got != strings.Trim(row[1], `"`) {
			t.Errorf("%s: %s elsewhere, the page says %s", body, got, row[1])
		}
		p, err := lua.New().Compile(engine.Source{Code: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := luatest.Run(t, p, "acme", `{"obj":`+m[1]+`}`)
		if err != nil {
			got = "error: " + script.AsError(err).Message
		}
		if got != row[2] {
			t.Errorf("%s: %s here, the page says %s", body, got, row[2])
		}
	}
}

// elsewhere runs a script as those projects do, with gopher-lua as it is, and returns what
// its first result prints.
func elsewhere(t *testing.T, body, object string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(object), &value); err != nil {
		t.Fatal(err)
	}
	l := glua.NewState()
	defer l.Close()
	l.SetGlobal("obj", plainValue(l, value))
	if err := l.DoString(body); err != nil {
		return "error"
	}
	return l.ToStringMeta(l.Get(1)).String()
}

// plainValue makes nil of null, as those projects do.
func plainValue(l *glua.LState, value any) glua.LValue {
	switch v := value.(type) {
	case map[string]any:
		t := l.NewTable()
		for name, member := range v {
			t.RawSetString(name, plainValue(l, member))
		}
		return t
	case []any:
		t := l.NewTable()
		for _, element := range v {
			t.Append(plainValue(l, element))
		}
		return t
	case float64:
		return glua.LNumber(v)
	}
	return glua.LNil
}

// TestRequire: there is what there is, and nothing is loaded.
func TestRequire(t *testing.T) {
	e := lua.New()
	for body, want := range map[string]string{
		`local o = require("os") local n = {} for k, v in pairs(o) do n[#n + 1] = k .. type(v) end table.sort(n) return table.concat(n, " ")`: `"clockfunction datefunction difftimefunction timefunction"`,
		`local o = require "os" return o.execute == nil and o.getenv == nil and type(o), o == os`:                                             `"table" true`,
		`return require("json").encode({1}), require("string") == string`:                                                                     `"[1]" true`,
		`return require("cube")`:     `SCRIPT: module 'cube' not found: there are base64,`,
		`return kube`:                `null`,
		`return require()`:           `bad argument #1 to 'require' (string expected, got no value)`,
		`require("os").time = nil`:   `the library os is read-only`,
		`return require("tostring")`: `module 'tostring' not found`,
	} {
		if got := luatest.Outcome(t, e, "function handle() "+body+" end", ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
