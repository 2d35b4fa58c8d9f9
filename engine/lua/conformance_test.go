package lua_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, func() engine.Engine { return lua.New() }, enginetest.Dialect{
		Name: "lua",

		Echo:       "function handle(...) return ... end",
		Constant:   "function handle() return 42 end",
		Count:      "function handle() count = (count or 0) + 1 return count end",
		Config:     "function handle() return config end",
		ConfigKeep: "function handle() local was = config.kept config.kept = was or 1 return was end",

		Fail:     "function handle()\n  error('boom')\nend",
		FailLine: 2,

		Spin:       "function handle() while true do end end",
		SpinCaught: "function handle() while true do pcall(function() while true do end end) end end",
		Recurse:    "function handle() return handle() end",
		SpinLoad:   "while true do end function handle() end",

		Repeat:      "function handle(n) return ('x'):rep(n) end",
		Unencodable: "function handle() return { deep = { handle } } end",
		Cycle:       "function handle() local t = {} t.t = t return t end",

		Log:   "function handle(text) log.info(text) end",
		Value: "function handle(key) return kv.get(key) end",
		Tally: "function handle() return counter.add('calls') end",
		Take:  "function handle() return (ratelimit.allow('calls', {rate = 0.001, burst = 2})) end",

		Chunk:      "return obj",
		ChunkTwice: "return 1, 2",

		Broken:       "function handle()\n  local x = = 1\nend",
		BrokenLine:   2,
		NoEntrypoint: "function other() end",
	})
}
