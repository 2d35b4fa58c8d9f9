package wasm

import (
	"encoding/json"
	"math"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/hostapi"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/httpwasm"
	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hostModule is the module whose functions are what a script may use of the agent.
const hostModule = "scriptorium"

// none is what functions return in place of a length if there is nothing.
const none = math.MaxUint32

// imports returns all that a module may import, by the contract that it keeps to.
func imports(http bool) []sandbox.Import {
	if http {
		list := httpwasm.Imports(httpwasm.Agent{
			Exchange: func(c *sandbox.Call) *httpwasm.Exchange { return stateOf(c).exchange },
			Log:      logText,
		})
		return append(list, wasi()...)
	}
	list := []sandbox.Import{
		function("log", "iii:", hostLog),
		function("fail", "ii:", hostFail),
		function("config", "ii:i", hostConfig),
		function("kv_get", "iiii:i", hostKVGet),
		function("kv_keys", "iiiiiii:i", hostKVKeys),
		function("counter_add", "iiF:F", hostCounterAdd),
		function("ratelimit_take", "iiFFF:F", hostRatelimitTake),
	}
	return append(list, wasi()...)
}

func function(name, short string, call func(c *sandbox.Call, stack []uint64)) sandbox.Import {
	params, results := valueTypes(short)
	return sandbox.Import{Module: hostModule, Name: name, Params: params, Results: results, Call: call}
}

const (
	// hostCost is what looking something up costs.
	hostCost = 10
	// slowBytes is how many bytes are looked at one by one, or made at random, for one instruction.
	slowBytes = 16
	// maxCounterName is how long the name of a counter may be.
	maxCounterName = 128
)

// state is what host functions keep for a call.
type state struct {
	agent hostapi.Call
	out   [2]output // of fd 1 and 2
	// exchange is what a call of an http-wasm module is about; nil before it is known, and for other modules.
	exchange *httpwasm.Exchange
}

// quiet says that the module does what it has done before, in another call, and nobody wants its lines twice.
func (s *state) quiet() bool { return s.exchange != nil && s.exchange.Rehearsing() }

// stateOf returns the state of the call.
func stateOf(c *sandbox.Call) *state {
	s, ok := c.State.(*state)
	if !ok {
		s = &state{agent: hostapi.Call{Invocation: c.Inv, Meter: c, StringBytes: c.Limits.StringBytes}}
		c.State = s
	}
	return s
}

// check ends the call if the function has failed.
func check(c *sandbox.Call, function string, err *script.Error) {
	if err == nil {
		return
	}
	message := function + ": "
	if err.Field != "" {
		message += err.Field + ": "
	}
	c.Fail(script.Errorf(err.Kind, "", "%s", message+err.Message))
}

// text reads a text of at most so many bytes.
func text(c *sandbox.Call, address, length uint64, most int) string {
	n := uint32(length)
	if int64(n) > int64(most) {
		c.Fail(script.Errorf(script.Limit, "", "the module passed a text of %d bytes: at most %d are allowed", n, most))
	}
	b := c.Read(uint32(address), n)
	c.ChargeBytes(len(b))
	return string(b)
}

// answer writes as much of b as there is room, and returns the whole length.
func answer(c *sandbox.Call, buf, room uint64, b []byte) uint64 {
	part := b[:min(int64(len(b)), int64(uint32(room)))]
	c.ChargeBytes(len(part))
	c.Write(uint32(buf), part)
	return uint64(uint32(len(b)))
}

// levels by the numbers that modules pass.
var levels = [...]engine.Level{engine.Info, engine.Warn, engine.Error}

func hostLog(c *sandbox.Call, stack []uint64) {
	level := uint32(stack[0])
	if level >= uint32(len(levels)) {
		c.Failf("log: there is no level %d: 0 is info, 1 warn, 2 error", level)
	}
	logText(c, levels[level], uint32(stack[1]), uint32(stack[2]))
}

func logText(c *sandbox.Call, level engine.Level, address, n uint32) {
	message := text(c, uint64(address), uint64(min(n, hostapi.MaxLine+1)), hostapi.MaxLine+1) // what is longer is cut
	if n > hostapi.MaxLine+1 {
		c.Read(address, n)
	}
	c.Charge(len(message)) // each byte is looked at, and may be escaped
	if s := stateOf(c); !s.quiet() {
		check(c, "log", s.agent.Log(level, message))
	}
}

func hostFail(c *sandbox.Call, stack []uint64) {
	n := min(uint32(stack[1]), hostapi.MaxLine)
	message := hostapi.Clip(string(c.Read(uint32(stack[0]), n)))
	if message == "" {
		message = "the script failed without a message"
	}
	c.Fail(script.Errorf(script.Script, "", "%s", message))
}

func hostConfig(c *sandbox.Call, stack []uint64) {
	c.Outside()
	config := c.Inv.Config
	if len(config) == 0 {
		config = []byte("{}")
	}
	stack[0] = answer(c, stack[0], stack[1], config)
}

func hostKVGet(c *sandbox.Call, stack []uint64) {
	c.Outside()
	key := keyText(c, stack[0], stack[1])
	content, ok, err := stateOf(c).agent.Value("kv_get", key)
	check(c, "kv_get", err)
	if len(content) > c.Limits.StringBytes {
		c.Fail(script.Errorf(script.Limit, "", "kv_get: the value of %s has %d bytes, and a module gets at most %d: split the value", hostapi.KeyText(key), len(content), c.Limits.StringBytes))
	}
	if !ok {
		stack[0] = none
		return
	}
	stack[0] = answer(c, stack[2], stack[3], content)
}

// keyText reads a key. One that is too long to be a key is cut, and still too long.
func keyText(c *sandbox.Call, address, length uint64) string {
	n := uint32(length)
	if n > script.MaxValueKeyLen+1 {
		c.Read(uint32(address), n)
		n = script.MaxValueKeyLen + 1
	}
	return text(c, address, uint64(n), script.MaxValueKeyLen+1)
}

func hostKVKeys(c *sandbox.Call, stack []uint64) {
	c.Outside()
	prefix, after := keyText(c, stack[0], stack[1]), keyText(c, stack[2], stack[3])
	keys, err := stateOf(c).agent.Keys(prefix, after)
	check(c, "kv_keys", err)
	if limit := uint32(stack[4]); int64(limit) < int64(len(keys)) {
		keys = keys[:limit]
	}
	if keys == nil {
		keys = []string{}
	}
	list, failed := json.Marshal(keys)
	if failed != nil { // texts do not fail
		panic(failed)
	}
	stack[0] = answer(c, stack[5], stack[6], list)
}

func hostCounterAdd(c *sandbox.Call, stack []uint64) {
	c.Outside()
	name := text(c, stack[0], min(stack[1]&math.MaxUint32, maxCounterName+1), maxCounterName+1)
	value, err := stateOf(c).agent.Add(name, math.Float64frombits(stack[2]))
	check(c, "counter_add", err)
	stack[0] = math.Float64bits(value)
}

func hostRatelimitTake(c *sandbox.Call, stack []uint64) {
	c.Outside()
	bucket := text(c, stack[0], stack[1], c.Limits.StringBytes)
	ok, wait, err := stateOf(c).agent.Take(bucket, hostapi.Rate{
		Cost: math.Float64frombits(stack[2]), Rate: math.Float64frombits(stack[3]), Burst: math.Float64frombits(stack[4]),
	})
	check(c, "ratelimit_take", err)
	seconds := 0.0
	if !ok {
		seconds = max(wait.Seconds(), math.SmallestNonzeroFloat64)
	}
	stack[0] = math.Float64bits(seconds)
}
