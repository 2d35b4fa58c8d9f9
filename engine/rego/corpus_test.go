package rego_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
)

// TestDocumentsCorpus: the evaluation in part changes neither decisions nor errors.
func TestDocumentsCorpus(t *testing.T) {
	for name, modules := range corpus {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"p.rego": "package acme.p\n" + modules[0]}
			for i, m := range modules[1:] {
				files[fmt.Sprintf("m%d.rego", i)] = m
			}
			sameAsOPA(t, files)
		})
	}
}

func sameAsOPA(t *testing.T, files map[string]string) {
	t.Helper()
	data := map[string]any{"n": 1, "list": []any{1, 2, 3}, "o": map[string]any{"a": 1, "b": 2}, "s": "x", "f": false}
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	data["config"], data["values"] = map[string]any{"plan": "paid"}, map[string]any{"k": "v", "j": map[string]any{"x": 1}}
	opts := []func(*oparego.Rego){oparego.Query("x := data.acme.p.decision"), oparego.Store(inmem.NewFromObject(data))}
	for name, code := range files {
		opts = append(opts, oparego.Module(name, code))
	}
	opa, err := oparego.New(opts...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatalf("OPA: %v", err)
	}
	src := source("", "interpreted")
	files["data.json"] = string(text)
	src.Code, src.Entrypoint = bundle(t, files), "acme/p/decision"
	p, err := newEngine(t).Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	host := &enginetest.Host{}
	host.Values = map[string]map[string]string{"acme": {"k": `"v"`, "j": `{"x":1}`}}
	for _, in := range []string{`{}`, `{"a":1}`, `{"a":2}`, `{"b":1}`, `{"a":1,"b":1}`, `{"a":1,"b":2}`, `{"a":"x","b":[1,2]}`, `null`, `{"a":false}`, `{"a":"p"}`, `{"a":[1,2,3]}`, `{"a":{"x":1}}`} {
		var input any
		if err := json.Unmarshal([]byte(in), &input); err != nil {
			t.Fatal(err)
		}
		want, wantErr := opa.Eval(t.Context(), oparego.EvalInput(input))
		var res engine.Result
		err = p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Host: host, Args: [][]byte{[]byte(in)}, Config: []byte(`{"plan":"paid"}`)}, &res)
		if wantErr != nil || len(want) == 0 {
			if err == nil {
				t.Errorf("%s: got %s, want no result: %v", in, value(&res), wantErr)
			} else if strings.Contains(err.Error(), "partial") {
				t.Errorf("%s: the error %q names what is not in the source", in, err)
			}
			continue
		}
		expected, _ := json.Marshal(want[0].Bindings["x"])
		if err != nil || !sameJSON(t, value(&res), string(expected)) {
			t.Errorf("%s: got %s, %v, want %s", in, value(&res), err, expected)
		}
	}
}

// TestReservedDocuments: the engine has rules and documents of its own in data.
func TestReservedDocuments(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"package":    {"p.rego": "package acme.p\ndecision := 1", "m.rego": "package scriptorium_partial\ndecision := 2"},
		"subpackage": {"p.rego": "package acme.p\ndecision := 1", "m.rego": "package scriptorium_partial_decision.acme\ndecision := 2"},
		"document":   {"p.rego": "package acme.p\ndecision := 1", "data.json": `{"scriptorium_partial": {"decision": 2}}`},
		"values":     {"p.rego": "package acme.p\ndecision := 1", "data.json": `{"values": {}}`},
	} {
		src := source("", "interpreted")
		src.Code, src.Entrypoint = bundle(t, files), "acme/p/decision"
		if _, err := newEngine(t).Compile(src); err == nil || !strings.Contains(err.Error(), "is a document of the engine") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// corpus are policies for which an evaluation in part has pitfalls. A policy may have a second module.
var corpus = map[string][]string{
	"conflict hidden": {`default decision := "no"
a := 1 if input.a == 1
a := 2 if input.b == 1
decision := "yes" if a == 1`},
	"conflict const": {`default decision := "no"
a := 1 if data.n == 1
a := 2 if input.a == 1
decision := "yes" if a == 1`},
	"conflict func": {`default decision := "no"
f(x) := 1 if x == input.a
f(x) := 2 if x == input.b
decision := "yes" if f(1) == 1`},
	"conflict partial object": {`default decision := "no"
o[k] := 1 if k := input.a
o[k] := 2 if k := input.b
decision := "yes" if o[1] == 1`},
	"conflict object comp": {`default decision := "no"
decision := {k: v | some v in data.list; k := input.a}`},
	"not conflict": {`default decision := "no"
a := 1 if input.a == 1
a := 2 if input.b == 1
decision := "yes" if not a == 2`},
	"data var": {`decision := [k | some k; data.o[k] == input.a]`},
	"values":   {`decision := [data.values.k, data.values.j.x == input.a, [k | some k, v in data.values]]`},
	"values with": {`decision := [x, data.values.k] if { x := y with data.values as {"k": 3} }
y := [data.values.k, data.list[0]]`},
	"values with2": {`decision := x if { x := y with data.values.k as data.n }
y := [data.values.k, data.list[0], input.a]`},
	"config with": {`decision := x if { x := y with data.config.plan as input.a }
y := [data.config.plan, data.list[0]]`},
	"with data unknown": {`decision := x if { x := y with data.list as [input.a] }
y := [w | some v in data.list; w := v + 1]`},
	"with list elem": {`decision := x if { x := y with data.o.a as input.a }
y := data.o`},
	"with input": {`decision := x if { x := y with input as {"a": data.n} }
default y := "none"
y := z if z := data.o.a + input.a`},
	"with rule": {`decision := x if { x := y with z as data.list }
y := [v | some v in z]
z := input.b`},
	"with fn": {`decision := x if { x := y with count as 7 }
y := count(input.a)`},
	"with fn2": {`decision := x if { x := y with count as f }
f(x) := concat("-", ["a", input.a])
y := count(data.list)`},
	"with now": {`decision := x if { x := y with time.now_ns as data.n }
y := time.now_ns() + data.n`},
	"with guarded": {`decision := x if { x := y with sprintf as f }
f(_, a) := a
y := sprintf("%v", [input.a])`},
	"with guarded2": {`decision := x if { x := y with regex.match as data.f }
y := regex.match("a", input.a)`},
	"else": {`decision := 1 if { input.a == data.n } else := 2 if { input.b == data.n } else := data.o.b if input.a == 2`},
	"else conflict": {`decision := 1 if { input.a == data.n } else := 2 if { input.b == data.n }
decision := 3 if { data.n == 1; input.a }`},
	"default func": {`decision := f(input.a)
default f(_) := "d"
f(x) := data.o[k] if { some k; data.list[x] == data.o[k] }`},
	"neg": {`default decision := "no"
decision := "yes" if not deny
deny if { some x in data.list; x == input.a }
deny if { not data.o[input.b] }`},
	"neg neg": {`decision := [x | some x in data.list; not bad(x)]
bad(x) if not x == input.a`},
	"every": {`default decision := "no"
decision := "yes" if every x in data.list { x != input.a; not data.o.a == input.b }`},
	"every input": {`default decision := "no"
decision := "yes" if every x in input.a { x in data.list }`},
	"every empty": {`default decision := "no"
decision := "yes" if every x in [y | some y in data.list; y > 5] { x == input.a }`},
	"partial set": {`decision := s
s contains x if some x in data.list
s contains input.a`},
	"partial obj": {`decision := o
o[k] := v if some k, v in data.o
o[k] := input.a if k := sprintf("k%v", [input.b])`},
	"ref head": {`decision := r
r.x.y := data.n
r.x[k] := v if { some k, v in data.o; v == input.a }
r.z contains input.b`},
	"ref head2": {`decision := r[input.a]
r["x"] := 1
r[k].y := v if { some k, v in data.o; v == input.b }`},
	"ref head3": {`decision := r.q
r.q[k].z if some k, x in data.o
r.q[k].w := input.a if some k, x in data.o`},
	"walk":        {`decision := [p | walk(data.o, [p, v]); v == input.a]`},
	"builtin err": {`decision := [to_number(data.s) | input.a]`},
	"builtin err2": {`default decision := "d"
decision := "x" if not to_number(data.s)
decision := "x" if not to_number(input.a)`},
	"builtin err3":    {`decision := {"x": 1 / input.a, "y": [y | some x in data.list; y := 1 / (x - 1)]}`},
	"undefined entry": {`decision := data.o.zzz[input.a]`},
	"false":           {`decision := data.f`},
	"false input":     {`decision := input.a if not data.f`},
	"naked input": {`default decision := "d"
decision if input.a`},
	"naked ref": {`default decision := "d"
decision if x
x := input.a`},
	"neg ref": {`default decision := "d"
decision if not x
x := input.a if data.n == 1`},
	"false fn": {`default decision := "d"
decision if f(1)
f(x) := input.a if x == data.n`},
	"neg false fn": {`default decision := "d"
decision if not f(1)
f(x) := input.a if x == data.n`},
	"shadow":           {`decision := [x | x := data.list[_]; y := [x | x := input.a]; y[0] == x]`},
	"doc + rules":      {`decision := object.keys(data.o)`, "package o.c\nz := input.a"},
	"doc + rules2":     {`decision := data.o`, "package o.c\nz := input.a"},
	"doc + rules3":     {`decision := [k | some k; data.o[k]]`, "package o.c\nz := input.a if data.n == 1"},
	"sets union":       {`decision := {x | some x in data.list} | {input.a}`},
	"unify":            {`decision := [x, y] if { [x, y, data.n] = [input.a, data.s, z]; z < 2 }`},
	"unify2":           {`decision := x if { {"a": x, "b": 2} = data.o; input.a }`},
	"unify3":           {`decision := x if { [1, x, 3] = data.list; input.b == x-1 }`},
	"array from input": {`decision := x if { [x, y, z] = input.a; y in data.list }`},
	"compr nested":     {`decision := {k: [x | some x in data.list; x >= v; not x == input.a] | some k, v in data.o}`},
	"recursionish": {`decision := g(f(input.a))
f(x) := y if y := data.o[["a","b"][x-1]]
g(y) := data.list[y]`},
	"multi": {`decision contains x if { some x in data.list; x == input.a }
decision contains "z" if data.n == input.b`},
	"entry object": {`decision[k] := v if { some k, v in data.o; v == input.a }`},
	"membership":   {`decision := [input.a in data.list, input.b in data.o]`},
	"early exit": {`decision if { some x in data.list; x == input.a }
decision if { data.n == input.b }
default decision := false`},
	"obj get":      {`decision := object.get(data.o, input.a, object.get(data.o, "a", input.b))`},
	"template":     {"decision := $\"a {input.a} b {data.n}\""},
	"closures":     {`decision := [z | some x in data.list; z := {y | some y in data.list; y > x; y != input.a}]`},
	"closures not": {`decision := [x | some x in data.list; not [y | some y in data.list; y > x; y != input.a] == [3]]`},
	"fn in with": {`decision := x if { x := f(3) with data.n as input.a }
f(y) := data.n + y`},
	"fn cache with": {`decision := [x, z] if { z := r; x := r with data.n as input.a }
r := data.n + 1`},
	"with in not": {`default decision := "d"
decision := "n" if not r == 2 with data.n as input.a
r := data.n + 1`},
	"with undefined": {`default decision := "d"
decision := "n" if { not r with data.n as input.zzz }
r := data.n + 1`},
	"with comp": {`decision := [v | v := r with data.n as data.list[_]; v > input.a]
r := data.n + 1`},
	"input whole": {`decision := [input, data.n]`},
	"else default value": {`default decision := "d"
decision := x if { x := data.o[input.a] } else := y if { y := data.list[input.b] } else := false if input.a == 2`},
	"contains in head dyn": {`decision := q
q[data.s] := input.a
q[x] := 1 if x := sprintf("k%v", [data.list[_]])`},
	"negated unsafe": {`decision := [x | some x in [1, 2, 5]; not x in data.list; not x == input.a]`},
	"overlap fn": {`decision := [y | y := f(data.list[_])]
f(1) := input.a
f(x) := input.b if x > 1`},
	"shared conflict rule": {`decision := [a, b]
default a := 0
a := x if { x := data.list[_]; x == input.a }
default b := 0
b := x if { x := data.list[_]; x > input.a }`},
	"conflict many": {`default decision := 0
decision := x if { x := data.list[_]; x != input.a }`},
	"conflict unused": {`default decision := 0
decision := 1 if { f(input.b); true }
f(x) := y if { y := data.list[_]; y > x }`},
	"conflict defined": {`default decision := 0
decision := 1 if a
a := x if { x := data.list[_]; x > input.b }`},
	"conflict member": {`default decision := 0
decision := 1 if a.x
a := {"x": x} if { x := data.list[_]; x > input.b }`},
}
