package lint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
)

// TestIdioms: valid scripts that people write have no findings.
func TestIdioms(t *testing.T) {
	for name, source := range map[string]string{
		"another Lua, first":  "local unpack = table.unpack or unpack\nfunction handle(t) return unpack(t) end",
		"another Lua, second": "local unpack = unpack or table.unpack\nfunction handle(t) return unpack(t) end",
		"another Lua, both":   "local band = bit or bit32\nfunction handle() return band == nil end",
		"another host":        "function handle(r) if ngx then return ngx.var.uri end return r.path end",
		"a host by its type":  "local inside = type(ngx) == 'table'\nfunction handle() return inside end",
		"a member is nil":     "function handle() if os.getenv ~= nil then return os.getenv('HOME') end end",
		"optional config":     "function handle() if config.debug then log.info(config.debug) end end",
		"optional by type":    "function handle() if type(config.debug) == 'string' then return config.debug end end",
		"no config":           "function handle() if config.debug == nil then return 1 end return config.debug end",
		"sorted by an alias":  "local sort = table.sort\nfunction handle(t) local names = {} for k in pairs(t) do names[#names + 1] = k end sort(names) return names end",
		"a list of the loop":  "function handle(t) for _, list in pairs(t) do list[#list + 1] = 'all' end return t end",
		"a new text each":     "function handle(t) local out = {} for k, v in pairs(t) do local s = k if v then s = s .. '!' end out[k] = s end return out end",
		"error of nothing":    "function handle() error() end",
		"method of a library": "local queue = require('acme/queue').new()\nfunction handle() return queue:rep(), queue:find() end",
	} {
		if got := check(t, source, `{"limit":1}`); len(got) != 0 {
			t.Errorf("%s:\n%s\n%s", name, source, shown(got))
		}
	}
}

// TestStillFound: what the idioms excuse is no excuse for others.
func TestStillFound(t *testing.T) {
	for source, want := range map[string]string{
		"function handle(r) return r.limit or config.limt end":                                                                     "W014",
		"function handle() if ngx then return cjson end end":                                                                       "W002",
		"function handle(r) return r.path or reqest end":                                                                           "W001",
		"function handle() if reqest then return 1 end end":                                                                        "W001",
		"function handle(t) local all = {} for _, v in pairs(t) do local w = v if w then all[#all + 1] = w end end return all end": "W012",
	} {
		if got := shown(check(t, source, `{"limit":1}`)); !strings.Contains(got, " "+want+" ") || strings.Contains(got, "\n") {
			t.Errorf("%s\ngot\n%s\nwant %s", source, got, want)
		}
	}
}

// TestPlaces: a finding is at the name that it is about, not at a member or a key with the same name.
func TestPlaces(t *testing.T) {
	for source, want := range map[string]string{
		"function handle(r)\n  return r.reqest, reqest\nend":                         "2:20 W001",
		"function handle()\n  return {reqest = reqest}\nend":                         "2:20 W001",
		"function handle(limt)\n  return limt, config.limt\nend":                     "2:23 W014",
		"function handle(r)\n  return config['limt']\n  -- \n  , r.limt\nend":        "2:17 W014",
		"function handle(rep)\n  return rep, string.rep()\nend":                      "2:22 W011",
		"function handle(r)\n  return r['a'] == json.null,\n  r.a\nend":              "2:12 W015",
		"function handle(r)\n  local t = {path = r} local path = 1\n  return t\nend": "2:30 W005",
	} {
		if got := shown(check(t, source, `{"limit":1}`)); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s\ngot\n%s\nwant %s", source, got, want)
		}
	}
}

// TestLongSources: the admission webhook lints what strangers write, so the time is linear in the source.
func TestLongSources(t *testing.T) {
	const size = 1 << 19
	fill := func(piece func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-64; i++ {
			b.WriteString(piece(i))
		}
		return b.String()
	}
	name := func(i int) string { // distinct, and with one beginning
		text := []byte("Aaaaa")
		for n := len(text) - 1; i > 0; n, i = n-1, i/26 {
			text[n] = byte('a' + i%26)
		}
		return string(text)
	}
	for about, source := range map[string]string{
		"a name in each line":     fill(func(int) string { return "do local a end\n" }),
		"a name again and again":  fill(func(int) string { return "do local a end " }),
		"globals of others' case": fill(func(i int) string { n := name(i); return n + "=1 f(" + strings.ToLower(n[:1]) + n[1:] + "x)" }),
		"codes of a comment":      fill(func(int) string { return "do local a end " })[:size/2] + "-- lint:ignore " + strings.Repeat("W1 ", size/7),
	} {
		t.Run(about, func(t *testing.T) {
			began := time.Now()
			lint.Check(lint.Source{Source: engine.Source{Code: []byte(source), Entrypoint: "handle"}})
			if took := time.Since(began); took > 2*time.Minute { // quadratic time is more than ten
				t.Errorf("took %s", took)
			}
		})
	}
}
