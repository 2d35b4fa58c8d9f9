package lua_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua/luatest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// canary is the secret of the tenant acme: in its source, arguments, config and values.
const canary = "c4n4ry-8d1f"

// goldenCalls is how many benign calls follow each hostile one.
const goldenCalls = 1000

// goldens are benign programs and what they answer. What they rely on is what hostile
// scripts try to change. The first makes most of the calls.
var goldens = []struct{ source, arg, config, want string }{
	{`function handle(n) return n + 1, #"four" end`, `41`, "", "42\n4"},
	{typicalSource, string(typicalArgument), "", `{"upstream":"canary","user":"alice@acme","path":"/shop/cart"}`},
	{ // the environment is fresh
		source: `
local before = planted == nil and kept == nil and evil == nil and seen == nil
seen = true
function handle(v)
  assert(before and _G.planted == nil and string.planted == nil and ("").planted == nil and string.format("%d", 7) == "7")
  assert(config.planted == nil and v.planted == nil and getmetatable("") == false and getmetatable(json.array()) == nil)
  assert(type(tostring) == "function" and tostring(json.null) == "null" and select("#", pcall(error)) == 2)
  return { secret = "` + canary + `", given = v.secret, config = config.secret }
end`,
		arg: `{"secret":"` + canary + `-arg"}`, config: `{"secret":"` + canary + `-config"}`,
		want: `{"secret":"` + canary + `","given":"` + canary + `-arg","config":"` + canary + `-config"}`,
	},
	{ // libraries
		source: `
function handle(list)
  table.sort(list, function(a, b) return a > b end)
  local words = {}
  for word in ("the quick brown fox"):gmatch("%a+") do words[#words + 1] = word:upper() end
  local joined, n = table.concat(words, "-"):gsub("O", "0")
  return list, joined, n, ("%5.2f|%q|%-4s|"):format(3.14159, "a\"b", "x"), math.floor(7.9), #words
end`,
		arg: `[3,1,2]`, want: `[3,2,1]` + "\n" + `"THE-QUICK-BR0WN-F0X"` + "\n" + `2` + "\n" + `" 3.14|\"a\\\"b\"|x   |"` + "\n" + `7` + "\n" + `4`,
	},
	{ // JSON and metatables
		source: `
function handle(text)
  local v = json.decode(text)
  local p = setmetatable({}, {__index = v, __call = function(_, x) return x + 1 end, __concat = function() return "joined" end})
  return json.encode(v), p.a, p(41), p .. "x", v.list
end`,
		arg: `"{\"a\":1,\"list\":[]}"`, want: `"{\"a\":1,\"list\":[]}"` + "\n1\n42\n\"joined\"\n[]",
	},
	{ // an error is the same each time
		source: "function handle()\n  local t = {}\n  return t.nothere.x\nend",
		arg:    `1`, want: `SCRIPT attempt to index field 'nothere' (a nil value, key 'x') (line 3)`,
	},
}

func (c *corpusChild) compileGolden() error {
	for _, g := range goldens {
		p, err := c.engine.Compile(engine.Source{Code: []byte(g.source), Entrypoint: "handle"})
		if err != nil {
			return err
		}
		c.programs = append(c.programs, p)
	}
	return nil
}

// golden makes the benign calls, for acme and mallory in turns.
func (c *corpusChild) golden() {
	for i := range goldenCalls {
		which := i % 50
		if which >= len(goldens) {
			which = 0
		}
		g := &goldens[which]
		inv := &engine.Invocation{
			Tenant: "acme", Script: "good", Version: 1, Host: c.host, Args: [][]byte{[]byte(g.arg)},
			Limits: script.Limits{Timeout: luatest.Patient},
		}
		if g.config != "" {
			inv.Config = []byte(g.config)
		}
		if i/50%2 == 1 {
			inv.Tenant = "mallory"
		}
		c.res.Reset()
		err := c.programs[which].Run(context.Background(), inv, &c.res)
		if got := answer(&c.res, err); got != g.want {
			c.problem("call %d after it: %s answers %s, want %s", i, inv.Tenant, got, g.want)
			return
		}
	}
}

// answer is what a call ended with, as text.
func answer(res *engine.Result, err error) string {
	if err != nil {
		return fmt.Sprintf("%s %v", script.KindOf(err), err)
	}
	lines := make([]string, res.Len())
	for i := range lines {
		lines[i] = string(res.Value(i))
	}
	return strings.Join(lines, "\n")
}

// canaryHost is a host on which acme keeps its secret.
type canaryHost struct {
	logged bytes.Buffer // by mallory
}

func (h *canaryHost) Log(inv *engine.Invocation, _ engine.Level, message string) {
	if inv.Tenant == "mallory" && h.logged.Len() < 1<<20 {
		h.logged.WriteString(message)
	}
}

func (*canaryHost) Value(tenant, _ string) ([]byte, bool, error) {
	return []byte(`"` + canary + `"`), tenant == "acme", nil
}

func (*canaryHost) Keys(tenant, _, _ string, _ int) []string {
	if tenant == "acme" {
		return []string{canary}
	}
	return nil
}

func (*canaryHost) Count(_, _ string, n float64) (float64, error) { return n, nil }

func (*canaryHost) Take(string, string, float64, float64, float64) (bool, time.Duration) {
	return true, 0
}
