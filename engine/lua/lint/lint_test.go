package lint_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
)

func check(t *testing.T, source, config string) []lint.Finding {
	t.Helper()
	src := lint.Source{Source: engine.Source{Code: []byte(source), Entrypoint: "handle"}}
	if config != "" {
		src.Config = json.RawMessage(config)
	}
	if _, err := lua.New().Compile(src.Source); err != nil {
		t.Errorf("%s\ndoes not compile: %v", source, err)
	}
	return lint.Check(src)
}

func shown(findings []lint.Finding) string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Rule.Code, f.Message))
	}
	return strings.Join(lines, "\n")
}

// TestRules: the examples of each rule are true.
func TestRules(t *testing.T) {
	codes := map[string]bool{}
	for _, r := range lint.Rules {
		if codes[r.Code] || codes[r.Name] || lint.Find(r.Code) != r || lint.Find(r.Name) != r {
			t.Errorf("%s is not unique", r.Code)
		}
		codes[r.Code], codes[r.Name] = true, true
		const config = `{"limit":1}`
		if got := check(t, r.Bad, config); len(got) != 1 || got[0].Rule != r || got[0].Column == 0 {
			t.Errorf("%s, the bad example:\n%s\n%s", r.Code, r.Bad, shown(got))
		}
		if got := slices.DeleteFunc(check(t, r.Good, config), func(f lint.Finding) bool { return f.Rule.Off }); len(got) != 0 {
			t.Errorf("%s, the good example:\n%s\n%s", r.Code, r.Good, shown(got))
		}
	}
}

func TestFindings(t *testing.T) {
	for source, want := range map[string]string{
		"function handle() local a = 1 a = 2 end":                                              "1:25 W005 local variable a is assigned to and never read",
		"function handle() local function f() return f() end end":                              "1:34 W005 local function f is never read",
		"local function f(n) return n > 0 and f(n - 1) end\nfunction handle() return f(1) end": "",
		"function handle(list) for i, v in ipairs(list) do log.info(v) end end":                "",
		"function handle(list) for k, v in pairs(list) do log.info(k) end end":                 "1:30 W005 loop variable v is never read",
		"function handle(list) for k, _ in pairs(list) do log.info(k) end end":                 "",
		"function handle(f) local ok, err = pcall(f) if not ok then return 1 end end":          "1:30 W005 local variable err is never read",
		"function handle(f) local ok, err = pcall(f) return err end":                           "",
		"local log = log function handle() log.info(1) end":                                    "",
		"function handle(time) return time end":                                                "1:17 W009 parameter time shadows the library time",
		"local x = 1 function handle() local x = 2 return x end":                               "1:7 W005 local variable x is never read\n1:7 W009 local variable x shadows the local variable of the same line",
		"function handle(x)\n  log.info(x)\n  do\n    local x = 2\n    return x\n  end\nend":   "4:11 W009 local variable x shadows the parameter 3 lines above",
		"function handle()\n  while true do end\n  return 1\nend":                              "3:3 W010 nothing reaches this statement: the one before it ends the block",
		"function handle()\n  while true do if handle then break end end\n  return 1\nend":     "",
		"function handle()\n  error('x')\n  log.info(1)\nend":                                  "3:3 W010 nothing reaches this statement: the one before it ends the block",
		"function handle()\n  do goto done end\n  ::done:: return 1\nend":                      "",
		"function handle(s) return s:rep() end":                                                "1:29 W011 string.rep needs at least 2 arguments and gets 1: string.rep(s, n)",
		"function handle(...) return string.rep(...) end":                                      "",
		"function handle(f) return string.rep(f()) end":                                        "",
		"function handle(f) return string.rep((f())) end":                                      "1:34 W011 string.rep needs at least 2 arguments and gets 1: string.rep(s, n)",
		"function handle() return kv.get() end":                                                "1:29 W011 kv.get needs at least 1 argument and gets 0: kv.get(key)",
		"function handle() return kv.get('a', 'b') end":                                        "1:29 W011 kv.get takes at most 1 argument and gets 2: kv.get(key)",
		"function handle() return ratelimit.allow('a', 5) end":                                 "1:36 W011 ratelimit.allow needs a table as its argument 2, options, and gets a number",
		"function handle() return string.rep('a', '3'), string.rep('a', 'b') end":              "1:33 W011 string.rep needs a number as its argument 2, n, and gets a string",
		"function handle(require) return require('acme/lib') end":                              "1:17 W009 parameter require shadows the function require: this source finds no libraries of the tenant",
		"local require = require function handle() return require('acme/lib') end":             "",
		"local kv = {} function handle() return kv.get() end":                                  "1:7 W009 local variable kv shadows the library kv",
		"function handle() return os.exit() end":                                               "1:26 W003 scripts have no os.exit",
		"function handle() return string.uper('a') end":                                        "1:26 W003 scripts have no string.uper: did you mean string.upper?",
		"function handle() return Helper() end function helper() end":                          "1:26 W001 Helper is defined nowhere, and so nil: did you mean helper?\n1:48 W007 global helper is never read",
		"function handle() return config.limt or 1, config.limt == nil end":                    "",
		"function handle() if config.limt then return config.limits end end":                   "1:53 W014 spec.config has no limits: did you mean config.limit?",
		"function handle(t) return t[1] == json.null, t.a ~= json.null end":                    "1:48 W015 a is nil if it is null in the JSON: compare it with nil",
		"function handle(t) local s = '' for k in pairs(t) do s = s .. k end return s end":     "1:26 W012 the order of s is that of pairs, in which the members were first set: sort it",
		"function handle(t) for k, v in pairs(t) do if v then table.insert(t, k) end end end":  "1:17 W012 the order of t is that of pairs, in which the members were first set: sort it",
		"function handle(s) return s:find('^(.-)%s*=%s*(.-)$') end":                            "",
		"local t = {} function t:find() return self end function handle() return t:find() end": "",
		"function handle(s) return s:match('[^/]*/[^/]*$'), s:gsub('%S+ %S+ %S+', '') end":     "1:54 W013",
		"local a = 1 -- lint:ignore W005 the next version reads it\nfunction handle() end":     "",
		"-- lint: ignore W005, W001\nlocal a = nothing\nfunction handle() end":                 "",
		"-- lint: ignore W001\nlocal a = nothing\nfunction handle() end":                       "2:7 W005 local variable a is never read",
		"function handle( this is not Lua":                                                     "",
	} {
		src := lint.Source{Source: engine.Source{Code: []byte(source), Entrypoint: "handle"}, Config: json.RawMessage(`{"limit":1}`)}
		got := shown(slices.DeleteFunc(lint.Check(src), func(f lint.Finding) bool { return f.Rule.Off }))
		if strings.HasSuffix(want, "W013") { // without its message
			got = got[:min(len(want), len(got))]
		}
		if got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", source, got, want)
		}
	}
}
