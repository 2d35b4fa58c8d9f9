package lua_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	glua "github.com/yuin/gopher-lua"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/lua"
	"github.com/scriptorium-dev/scriptorium/script"
)

const typicalSource = `
function handle(request)
  local h = request.headers
  local agent = h["user-agent"] or ""
  local beta = h["x-beta"] == "1"
  local user = string.lower(h["x-user"] or "nobody")
  local upstream = "stable"
  if beta and agent:find("curl", 1, true) then
    upstream = "canary"
  elseif string.sub(h["host"] or "", 1, 4) == "eu1." then
    upstream = "europe"
  end
  return { upstream = upstream, user = user .. "@" .. (h["x-tenant"] or ""), path = request.path }
end`

var typicalArgument = []byte(`{"method":"GET","path":"/shop/cart","headers":{` +
	`"host":"eu1.example.com","user-agent":"curl/8.5","accept":"*/*","accept-encoding":"gzip","x-beta":"1",` +
	`"x-user":"Alice","x-tenant":"acme","x-request-id":"0b2f","x-forwarded-for":"10.0.0.1","cookie":"a=b; c=d",` +
	`"content-type":"application/json","content-length":"12","cache-control":"no-cache","origin":"https://example.com","te":"trailers"}}`)

func benchmarkRun(b *testing.B, source, entrypoint string, args ...[]byte) {
	b.Helper()
	p, err := lua.New().Compile(engine.Source{Code: []byte(source), Entrypoint: entrypoint})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	inv := &engine.Invocation{Tenant: "acme", Args: args, Limits: script.MaxLimits()}
	var res engine.Result
	b.ReportAllocs()
	for b.Loop() {
		res.Reset()
		if err := p.Run(b.Context(), inv, &res); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTrivial(b *testing.B) {
	benchmarkRun(b, `function handle(n) return n end`, "handle", []byte("1"))
}

func BenchmarkTypical(b *testing.B) {
	benchmarkRun(b, typicalSource, "handle", typicalArgument)
}

func BenchmarkJSON1KiB(b *testing.B) {
	doc := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"id":12345,"name":"a name","tags":["x","y"]},`, 22), ",") + `]}`)
	b.SetBytes(int64(len(doc)))
	benchmarkRun(b, `function handle(v) return v end`, "handle", doc)
}

func BenchmarkParallelTypical(b *testing.B) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(typicalSource), Entrypoint: "handle"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		inv := &engine.Invocation{Tenant: "acme", Args: [][]byte{typicalArgument}, Limits: script.MaxLimits()}
		var res engine.Result
		for pb.Next() {
			res.Reset()
			if err := p.Run(b.Context(), inv, &res); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkCold is a trivial call for which a state must be made.
func BenchmarkCold(b *testing.B) {
	p, err := lua.New().Compile(engine.Source{Code: []byte(`function handle(n) return n end`), Entrypoint: "handle"})
	if err != nil {
		b.Fatal(err)
	}
	inv := &engine.Invocation{Args: [][]byte{[]byte("1")}}
	var res engine.Result
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		res.Reset()
		inv.Tenant = strconv.Itoa(i) // each has no state yet
		if err := p.Run(b.Context(), inv, &res); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInstruction is the cost of a metered instruction and, in the
// baseline, of one of bare gopher-lua: a loop of a million additions.
func BenchmarkInstruction(b *testing.B) {
	const loop = `local s = 0 for i = 1, 100000 do s = s + i end return s`
	b.Run("metered", func(b *testing.B) { benchmarkRun(b, loop, "") })
	b.Run("bare", func(b *testing.B) {
		l := glua.NewState()
		defer l.Close()
		fn, err := l.LoadString(loop)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			l.Push(fn)
			l.Call(0, 0)
		}
	})
}

// BenchmarkBareGopherLua is a call of a resolved function, without environment,
// meter, or JSON: the floor.
func BenchmarkBareGopherLua(b *testing.B) {
	l := glua.NewState()
	defer l.Close()
	if err := l.DoString(`function handle(n) return n end`); err != nil {
		b.Fatal(err)
	}
	fn := l.GetGlobal("handle")
	b.ReportAllocs()
	for b.Loop() {
		l.Push(fn)
		l.Push(glua.LNumber(1))
		l.Call(1, 1)
		l.Pop(1)
	}
}

// BenchmarkBareTypical is the typical script in bare gopher-lua: a resolved function on
// a warm state, with a request that was made before. The first has no JSON; the
// second has the argument and the result go through encoding/json.
func BenchmarkBareTypical(b *testing.B) {
	l := glua.NewState()
	defer l.Close()
	if err := l.DoString(typicalSource); err != nil {
		b.Fatal(err)
	}
	call := func(request glua.LValue) glua.LValue {
		l.Push(l.GetGlobal("handle"))
		l.Push(request)
		l.Call(1, 1)
		defer l.Pop(1)
		return l.Get(-1)
	}
	b.Run("tables", func(b *testing.B) {
		var decoded any
		if err := json.Unmarshal(typicalArgument, &decoded); err != nil {
			b.Fatal(err)
		}
		request := bareValue(l, decoded)
		b.ReportAllocs()
		for b.Loop() {
			call(request)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var decoded any
			if err := json.Unmarshal(typicalArgument, &decoded); err != nil {
				b.Fatal(err)
			}
			result := map[string]string{}
			call(bareValue(l, decoded)).(*glua.LTable).ForEach(func(k, v glua.LValue) { result[k.String()] = v.String() })
			if _, err := json.Marshal(result); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// bareValue is a value of encoding/json in Lua.
func bareValue(l *glua.LState, v any) glua.LValue {
	switch v := v.(type) {
	case map[string]any:
		t := l.CreateTable(0, len(v))
		for name, member := range v {
			t.RawSetString(name, bareValue(l, member))
		}
		return t
	case string:
		return glua.LString(v)
	}
	return glua.LNil
}

// BenchmarkBareState is what a state with its libraries costs each time.
func BenchmarkBareState(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		l := glua.NewState()
		l.Close()
	}
}

func BenchmarkCheck(b *testing.B) {
	e := lua.New()
	src := engine.Source{Code: []byte(typicalSource), Entrypoint: "handle"}
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Check(src); err != nil {
			b.Fatal(err)
		}
	}
}
