package wasm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/wasm"
	"github.com/scriptorium-dev/scriptorium/script"
)

// httpGuest returns a module of http-wasm: its code handles requests.
func httpGuest(code string, imports ...string) guest {
	for n := range imports {
		imports[n] = "http_handler " + imports[n]
	}
	return guest{imports: imports, funcs: []fn{
		{export: "handle_request", typ: "> i64", locals: "i32 i32 i64", code: code},
		{export: "handle_response", typ: "i32 i32 >"},
	}}
}

// Functions of the ABI with their types.
const (
	getURI    = "get_uri i32 i32 > i32"
	getNames  = "get_header_names i32 i32 i32 > i64"
	getValues = "get_header_values i32 i32 i32 i32 i32 > i64"
	setHeader = "set_header_value i32 i32 i32 i32 i32 >"
	addHeader = "add_header_value i32 i32 i32 i32 i32 >"
	readBody  = "read_body i32 i32 i32 > i64"
	writeBody = "write_body i32 i32 i32 >"
)

// httpHostile are modules whose memory has letters up to 65536, with the kind of the error and words in it.
var httpHostile = []struct {
	name, code, imports string
	kind                script.Kind
	words               string
}{
	{name: "loop", code: "loop t br 0 end i64.const 0", kind: script.Limit, words: "200000 instructions"},
	{name: "unreachable", code: "unreachable", kind: script.Script, words: "trapped in handle_request"},
	{name: "recursion", code: "call 0", kind: script.Limit, words: "nested too deep"},
	{name: "grow storm", code: "loop t i32.const 1 memory.grow drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "far buffer", imports: getURI, code: "i32.const 65534 i32.const -1 call 0 drop i64.const 0", kind: script.Script, words: "buffer of 5 bytes at address 65534"},
	{name: "buffer beyond", imports: getURI, code: "i32.const -1 i32.const -1 call 0 drop i64.const 0", kind: script.Script, words: "not all in its memory"},
	{name: "far URI", imports: "set_uri i32 i32 >", code: "i32.const 65530 i32.const 100 call 0 i64.const 0", kind: script.Script, words: "100 bytes at address 65530"},
	{name: "huge URI", imports: "set_uri i32 i32 >", code: "i32.const 0 i32.const -1 call 0 i64.const 0", kind: script.Limit, words: "at most 65536"},
	{name: "no URI", imports: "set_uri i32 i32 >", code: "i32.const 0 i32.const 5 call 0 i64.const 0", kind: script.Script, words: "set_uri: parse"},
	{name: "URI storm", imports: "set_uri i32 i32 >", code: "loop t i32.const 1024 i32.const 9 call 0 br 0 end i64.const 0", kind: script.Limit, words: "more than 65536 bytes of headers"},
	{name: "kind of names", imports: getNames, code: "i32.const 4 i32.const 0 i32.const 0 call 0", kind: script.Script, words: "get_header_names: there is no kind 4 of headers"},
	{name: "kind of values", imports: getValues, code: "i32.const -1 i32.const 0 i32.const 1 i32.const 0 i32.const 0 call 0", kind: script.Script, words: "there is no kind 4294967295 of headers"},
	{name: "kind of a header", imports: setHeader, code: "i32.const 77 i32.const 0 i32.const 1 i32.const 0 i32.const 0 call 0 i64.const 0", kind: script.Script, words: "there is no kind 77 of headers"},
	{name: "trailer", imports: setHeader, code: "i32.const 2 i32.const 0 i32.const 1 i32.const 0 i32.const 0 call 0 i64.const 0", kind: script.Script, words: "there are no trailers"},
	{name: "kind of a body", imports: readBody, code: "i32.const 2 i32.const 0 i32.const 1 call 0", kind: script.Script, words: "there is no kind 2 of bodies"},
	{name: "no room for a body", imports: readBody, code: "i32.const 0 i32.const 0 i32.const 0 call 0", kind: script.Script, words: "the buffer has no room"},
	{name: "huge room for a body", imports: readBody, code: "i32.const 0 i32.const 0 i32.const -1 call 0", kind: script.Script, words: "not all in its memory"},
	{name: "far name", imports: getValues, code: "i32.const 0 i32.const 65535 i32.const 2 i32.const 0 i32.const 0 call 0", kind: script.Script, words: "2 bytes at address 65535"},
	{name: "huge name", imports: getValues, code: "i32.const 0 i32.const 0 i32.const 65536 i32.const 0 i32.const 0 call 0", kind: script.Limit, words: "at most 8192"},
	{name: "no name", imports: setHeader, code: "i32.const 0 i32.const 0 i32.const 0 i32.const 0 i32.const 0 call 0 i64.const 0", kind: script.Script, words: "the name of a header is empty"},
	{name: "name not UTF-8", imports: setHeader, code: "i32.const 0 i32.const 2048 i32.const 1 i32.const 0 i32.const 0 call 0 i64.const 0", kind: script.Script, words: "set_header_value: the text is not UTF-8"},
	{name: "values", imports: getValues, code: "i32.const 0 i32.const 1040 i32.const 1 i32.const 65535 i32.const 9 call 0", kind: script.Script, words: "buffer of 4 bytes at address 65535"},
	{name: "header storm", imports: addHeader, code: "loop t i32.const 1 i32.const 0 i32.const 1 i32.const 0 i32.const 0 call 0 br 0 end i64.const 0", kind: script.Limit, words: "more than 65536 bytes of headers"},
	{name: "large headers", imports: setHeader, code: "i32.const 1 i32.const 0 i32.const 1 i32.const 3000 i32.const 60000 call 0 i32.const 1 i32.const 0 i32.const 1 i32.const 3000 i32.const 60000 call 0 i64.const 0", kind: script.Limit, words: "more than 65536 bytes of headers"},
	{name: "body storm", imports: writeBody, code: "loop t i32.const 1 i32.const 0 i32.const 1000 call 0 br 0 end i64.const 0", kind: script.Limit, words: "more than 65536 bytes of headers"},
	{name: "empty bodies", imports: writeBody, code: "loop t i32.const 1 i32.const 0 i32.const 0 call 0 br 0 end i64.const 0", kind: script.Limit, words: "more than 65536 bytes of headers"},
	{name: "body that grows in JSON", imports: writeBody, code: "i32.const 1 i32.const 3000 i32.const 60000 call 0 i64.const 0", kind: script.Limit, words: "limits.resultBytes"},
	{name: "body of a request", imports: writeBody, code: "i32.const 0 i32.const 0 i32.const 1 call 0 i64.const 1", kind: script.Script, words: "write_body: a decision cannot change the body of a request"},
	{name: "body and the next one", imports: writeBody, code: "i32.const 1 i32.const 0 i32.const 1 call 0 i64.const 1", kind: script.Script, words: "and lets the request go on"},
	{name: "method", imports: "set_method i32 i32 >", code: "i32.const 0 i32.const 1 call 0 i64.const 0", kind: script.Script, words: "set_method: a decision cannot change the method"},
	{name: "status", imports: "set_status_code i32 >", code: "i32.const 99 call 0 i64.const 0", kind: script.Script, words: "the status is 99: want 200 to 599"},
	{name: "log storm", imports: "log i32 i32 i32 >", code: "loop t i32.const 0 i32.const 0 i32.const 65536 call 0 br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "far log", imports: "log i32 i32 i32 >", code: "i32.const 2 i32.const 0 i32.const -1 call 0 i64.const 0", kind: script.Script, words: "not all in its memory"},
	{name: "get storm", imports: getNames, code: "loop t i32.const 0 i32.const 0 i32.const 65536 call 0 drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "read storm", imports: readBody, code: "loop t i32.const 0 i32.const 0 i32.const 65536 call 0 drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
	{name: "config storm", imports: "get_config i32 i32 > i32", code: "loop t i32.const 0 i32.const 9 call 0 drop br 0 end i64.const 0", kind: script.Limit, words: "instructions"},
}

// TestHTTPWasmHostile runs each hostile module, and good calls after each call of it.
func TestHTTPWasmHostile(t *testing.T) {
	for name, config := range map[string]wasm.Config{"compiled": {}, "interpreted": {Interpreter: true}} {
		for _, reuse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,reuse=%v", name, reuse), func(t *testing.T) { testHTTPHostile(t, config, reuse) })
		}
	}
}

func testHTTPHostile(t *testing.T, config wasm.Config, reuse bool) {
	t.Helper()
	e, err := wasm.New(config)
	if err != nil {
		t.Fatal(err)
	}
	g := httpGuest("i32.const 1 i32.const 0 i32.const 3 call 0 i64.const 0", writeBody)
	g.data = map[int]string{0: "abc"}
	good := compile(t, e, g.bytes(t), reuse)
	calls := 1000
	if testing.Short() || config.Interpreter {
		calls = 50
	}
	for _, h := range httpHostile {
		t.Run(h.name, func(t *testing.T) {
			g := httpGuest(h.code)
			if h.imports != "" {
				g = httpGuest(h.code, h.imports)
			}
			g.data = map[int]string{0: strings.Repeat("x", 1000), 1024: "/a?b=cdef", 1040: "y", 2048: "\xff", 3000: strings.Repeat("\"", 60000)}
			p := compile(t, e, g.bytes(t), reuse)
			for range 3 {
				inv := invocation(`{"path":"/a?bc","headers":{"y":"123"}}`)
				inv.Host, inv.Limits.Instructions = &enginetest.Host{}, 200_000
				_, err := run(t, p, inv)
				if script.KindOf(err) != h.kind || !strings.Contains(err.Error(), h.words) {
					t.Errorf("%v (%s), want %s with %q", err, script.KindOf(err), h.kind, h.words)
				}
			}
			var res engine.Result
			inv := invocation(`{}`)
			for range calls {
				res.Reset()
				if err := good.Run(t.Context(), inv, &res); err != nil || string(res.Value(0)) != `{"allow":false,"status":200,"body":"abc"}` {
					t.Fatalf("a good call afterwards: %s, %v", res.Value(0), err)
				}
			}
		})
	}
}

// TestHTTPWasmArguments: what is no request never reaches a module.
func TestHTTPWasmArguments(t *testing.T) {
	p := compile(t, newEngine(t), httpGuest("i64.const 1").bytes(t), false)
	for _, args := range [][]string{
		{},
		{`null`},
		{`[]`},
		{`"x"`},
		{`{"path":1}`},
		{`{"headers":[]}`},
		{`{"headers":{"a":1}}`},
		{`{"headers":{"a":null}}`},
		{`{"headers":{"a":["b",null,3]}}`},
		{`{"headers":{"a":"\u0000b"}}`},
		{`{"headers":{"\u0000b":"a"}}`},
		{`{"headers":{"a":{}}}`},
		{`{}`, `{}`},
		{`{`},
	} {
		if got, err := run(t, p, invocation(args...)); script.KindOf(err) != script.Invalid {
			t.Errorf("%q: %s, %v", args, got, err)
		}
	}
	late := invocation(`{}`)
	late.OnResponse = true
	if _, err := run(t, p, late); script.KindOf(err) != script.Invalid {
		t.Errorf("no response: %v", err)
	}
	late = invocation(`{}`, `{"status":"ok"}`)
	late.OnResponse = true
	if _, err := run(t, p, late); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "args[1]") {
		t.Errorf("no status: %v", err)
	}
}

// TestHTTPWasmNothingSurvives: what a call leaves in memory, in globals and in the features that it enables is gone.
func TestHTTPWasmNothingSurvives(t *testing.T) {
	// The status is 200, and more if there is a mark of an earlier call.
	g := httpGuest(`
		i32.const 200 i32.const 5000 i32.load8_u 0 i32.add global.get 0 i32.add
		i32.const 0 call 0 i32.add call 1
		i32.const 5000 i32.const 1 i32.store8 0 i32.const 1 global.set 0
		i32.const 2 call 0 drop
		i64.const 0`, "enable_features i32 > i32", "set_status_code i32 >")
	g.globals = []string{"i32 0"}
	g.funcs = append(g.funcs, fn{export: "_initialize", typ: ">", code: "i32.const 5 call 0 drop"}) // trailers are not to be had
	for _, reuse := range []bool{false, true} {
		p := compile(t, newEngine(t), g.bytes(t), reuse)
		for range 20 {
			want(t, p, invocation(`{}`), `{"allow":false,"status":201}`)
		}
	}
}

// TestHTTPWasmCosts: what the agent looks at byte by byte, or member by member, is charged for, also if the module gets
// nothing of it.
func TestHTTPWasmCosts(t *testing.T) {
	const calls, bytes, members = 10, 8000, 1000
	used := func(imports, call, config string) int {
		g := httpGuest(fmt.Sprintf("i32.const %d local.set 0 loop t %s local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end i64.const 1", calls, call), imports)
		g.data = map[int]string{1024: strings.Repeat("X", bytes)}
		var used engine.Used
		inv := invocation(`{}`)
		inv.Used, inv.Config = &used, []byte(config)
		want(t, compile(t, newEngine(t), g.bytes(t), false), inv, `{"allow":true}`)
		return int(used.Instructions)
	}
	name := func(length int) int {
		return used(getValues, fmt.Sprintf("i32.const 0 i32.const 1024 i32.const %d i32.const 0 i32.const 0 call 0 drop", length), "")
	}
	if short, long := name(1), name(bytes); long-short < calls*bytes/4 {
		t.Errorf("%d names of %d bytes cost %d instructions, of 1 byte %d", calls, bytes, long, short)
	}
	config := func(text string) int {
		return used("get_config i32 i32 > i32", "i32.const 0 i32.const 0 call 0 drop", text)
	}
	var list []string
	for n := range members {
		list = append(list, fmt.Sprintf(`"%03d":1`, n))
	}
	many := "{" + strings.Join(list, ",") + "}"
	if one, all := config(fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", len(many)-8))), config(many); all-one < calls*members*10 {
		t.Errorf("%d times a config of %d members costs %d instructions, one of as many bytes in one member %d", calls, members, all, one)
	}
}

// TestHTTPWasmLongErrors: an error says so much, and not all that the module has passed.
func TestHTTPWasmLongErrors(t *testing.T) {
	g := httpGuest("i32.const 1024 i32.const 30000 call 0 i64.const 1", "set_uri i32 i32 >")
	g.data = map[int]string{1024: strings.Repeat("x", 30000)}
	_, err := run(t, compile(t, newEngine(t), g.bytes(t), false), invocation(`{}`))
	if script.KindOf(err) != script.Script || len(err.Error()) > 1<<10 || !strings.Contains(err.Error(), "set_uri: parse") {
		t.Errorf("an error of %d bytes: %.100v", len(err.Error()), err)
	}
}

// TestHTTPWasmQuietRehearsal: what handle_request writes and does not end belongs to handle_request.
func TestHTTPWasmQuietRehearsal(t *testing.T) {
	write := "i32.const 1 i32.const %d i32.const 1 i32.const 8 call 0 drop"
	g := httpGuest(fmt.Sprintf(write, 100) + " i64.const 1")
	g.imports = []string{"wasi_snapshot_preview1 fd_write i32 i32 i32 i32 > i32"}
	g.funcs[1].code = fmt.Sprintf(write, 108)
	g.data = map[int]string{100: "\x00\x02\x00\x00\x03\x00\x00\x00" + "\x08\x02\x00\x00\x03\x00\x00\x00", 512: "one", 520: "two"}
	for _, reuse := range []bool{false, true} {
		p := compile(t, newEngine(t), g.bytes(t), reuse)
		for range 3 {
			for _, c := range []httpCall{
				{request: `{}`, want: `{"allow":true}`, lines: "info one"},
				{request: `{}`, response: `{}`, want: `{"allow":true}`, lines: "info two"},
			} {
				c.check(t, p)
			}
		}
	}
}

// TestHTTPWasmRemovesUnseen: a gateway need not send all headers. One that the module removes goes all the same, so that
// no client passes it to the upstream.
func TestHTTPWasmRemovesUnseen(t *testing.T) {
	g := httpGuest("i32.const 0 i32.const 512 i32.const 6 call 0 i32.const 1 i32.const 512 i32.const 6 call 0 i64.const 1", "remove_header i32 i32 i32 >")
	g.funcs[1].code = "i32.const 1 i32.const 512 i32.const 6 call 0"
	g.data = map[int]string{512: "X-User"}
	p := compile(t, newEngine(t), g.bytes(t), false)
	for _, c := range []httpCall{
		{request: `{}`, want: `{"allow":true,"headers":{"remove":["x-user"]}}`}, // there is no response yet, and nothing to remove of it
		{request: `{"headers":{"x-user":"a"}}`, want: `{"allow":true,"headers":{"remove":["x-user"]}}`},
		{request: `{}`, response: `{}`, want: `{"allow":true,"response_headers":{"remove":["x-user"]}}`},
	} {
		c.check(t, p)
	}
}

// TestHTTPWasmManyHeaders: a request costs by its headers and their values, and the call looks at its turn and its clock
// while it reads them.
func TestHTTPWasmManyHeaders(t *testing.T) {
	const many, cost = 50_000, 10
	var headers []string
	for n := range many {
		headers = append(headers, fmt.Sprintf(`"%d":""`, n))
	}
	p := compile(t, newEngine(t), httpGuest("i64.const 1").bytes(t), true)
	for name, request := range map[string]string{
		"headers": `{"headers":{` + strings.Join(headers, ",") + `}}`,
		"values":  `{"headers":{"a":[""` + strings.Repeat(`,""`, many) + `]}}`,
	} {
		var used engine.Used
		var turn turn
		inv := invocation(request)
		inv.Limits.Instructions = script.MaxLimits().Instructions
		inv.Used, inv.Turn = &used, &turn
		want(t, p, inv, `{"allow":true}`)
		if used.Instructions < many*cost || turn.breaths < 20 {
			t.Errorf("%d %s cost %d instructions, and the call looked at its turn %d times", many, name, used.Instructions, turn.breaths)
		}
		inv.Limits.Instructions = many
		if _, err := run(t, p, inv); script.KindOf(err) != script.Limit {
			t.Errorf("%d %s for %d instructions: %v", many, name, many, err)
		}
	}
}

// TestHTTPWasmHeldMemory: what the agent keeps for a call counts as the call's memory, which its tenant's setting bounds.
func TestHTTPWasmHeldMemory(t *testing.T) {
	const memory = 1 << 20
	set := httpGuest(`loop t i32.const 1 i32.const 0 i32.const 8 i32.const 0 i32.const 30000 call 0
		i32.const 0 i32.const 0 i32.load 0 i32.const 1 i32.add i32.store 0 br 0 end i64.const 0`, setHeader)
	set.data = map[int]string{0: strings.Repeat("0", 30000)}
	e := newEngine(t)
	for name, c := range map[string]struct {
		g       guest
		request string
	}{
		"headers":         {httpGuest("i64.const 1"), `{"headers":{"a":[""` + strings.Repeat(`,""`, 30_000) + `]}}`},
		"body":            {httpGuest("i64.const 1"), `{"body":"` + strings.Repeat("x", memory) + `"}`},
		"what it has set": {set, `{}`},
	} {
		p := compile(t, e, c.g.bytes(t), true)
		inv := invocation(c.request)
		inv.Limits.ResultBytes = 2 * memory
		for range 3 {
			inv.Memory = memory
			if _, err := run(t, p, inv); script.KindOf(err) != script.Limit || script.AsError(err).Field != "tenant.memory" {
				t.Errorf("%s: %v, want the limit tenant.memory", name, err)
			}
			inv.Memory = 64 * memory
			if _, err := run(t, p, inv); name != "what it has set" && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestHTTPWasmLongNames: names are compared to be sorted, which costs by their bytes.
func TestHTTPWasmLongNames(t *testing.T) {
	const calls, bytes = 10, 100_000
	g := httpGuest(fmt.Sprintf("i32.const %d local.set 0 loop t i32.const 0 i32.const 0 i32.const 0 call 0 drop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end i64.const 1", calls), getNames)
	p := compile(t, newEngine(t), g.bytes(t), false)
	name := strings.Repeat("x", bytes)
	var used engine.Used
	inv := invocation(`{"headers":{"` + name + `1":"","` + name + `2":""}}`)
	inv.Used = &used
	want(t, p, inv, `{"allow":true}`)
	if used.Instructions < calls*2*bytes/64+2*bytes/4 {
		t.Errorf("%d calls for names of %d bytes cost %d instructions", calls, bytes, used.Instructions)
	}
}
