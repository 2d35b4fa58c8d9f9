package rego_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// documented are policies over the documents of a bundle; each has the rule decision in acme.p.
var documented = map[string]string{
	"scan": `package acme.p
default decision := {"allow": false}
decision := {"allow": true} if {
	some grant in data.grants
	grant.role == input.role
	grant.action == input.action
	grant.object == input.object
}`,
	"join": `package acme.p
default decision := false
decision if {
	some role in data.roles[input.user]
	some grant in data.grants
	grant.role == role
	grant.action == input.action
}`,
	"negation": `package acme.p
decision := {"denied": denied, "open": open}
denied contains grant.object if {
	some grant in data.grants
	not input.role == grant.role
	grant.action == input.action
}
default open := "no"
open := "yes" if every grant in data.grants { grant.action != input.action }`,
	"config": `package acme.p
decision := [limit, names]
default limit := 0
limit := data.limits[data.config.plan] if input.action == "read"
names := {name: n | some name, n in data.limits; n > input.least}`,
	"functions": `package acme.p
decision := sprintf("%s-%d", [kind(input.object), count(matching)])
matching contains g if { some g in data.grants; regex.match(g.pattern, input.object) }
kind(object) := "large" if to_number(substring(object, 1, -1)) > data.limits.free
else := "small" if input.role == "r1"
else := "none"`,
	"with": `package acme.p
decision := x if x := grants with data.grants as [{"role": input.role}]
grants := [g.role | some g in data.grants]`,
	"iteration": `package acme.p
decision := [name | some name; data.limits[name] == input.least]`,
	"random": `package acme.p
decision := count([1 | some g in data.grants; rand.intn(g.object, 10) < 10; time.now_ns() > 0])`,
}

func documents(grants int) map[string]any {
	var all []any
	for i := range grants {
		all = append(all, map[string]any{
			"role": fmt.Sprintf("r%d", i%5), "action": []string{"read", "write"}[i%2], "object": fmt.Sprintf("o%d", i), "pattern": fmt.Sprintf("^o%d", i%3),
		})
	}
	roles := map[string]any{}
	for i := range 6 {
		roles[fmt.Sprintf("u%d", i)] = []any{fmt.Sprintf("r%d", i), fmt.Sprintf("r%d", i/2)}
	}
	return map[string]any{"grants": all, "roles": roles, "limits": map[string]any{"free": 2, "paid": 10}}
}

func documentedSource(tb testing.TB, policy string, data map[string]any) engine.Source {
	tb.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		tb.Fatal(err)
	}
	src := source("", script.RegoTargetInterpreted)
	src.Code, src.Entrypoint = bundle(tb, map[string]string{"p.rego": policy, "data.json": string(text)}), "acme/p/decision"
	return src
}

// TestDocuments: what is evaluated when a policy is compiled changes no decision: OPA, which does no such thing, has the same.
func TestDocuments(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	e := newEngine(t)
	for name, policy := range documented {
		data := documents(12)
		data["config"] = map[string]any{"plan": "paid"}
		opa, err := oparego.New(oparego.Query("x := data.acme.p.decision"), oparego.Module("p.rego", policy), oparego.Store(inmem.NewFromObject(data))).PrepareForEval(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		delete(data, "config")
		p, err := e.Compile(documentedSource(t, policy, data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 40 {
			input := map[string]any{
				"role": fmt.Sprintf("r%d", rnd.IntN(7)), "action": []string{"read", "write", "none"}[rnd.IntN(3)],
				"object": fmt.Sprintf("o%d", rnd.IntN(14)), "user": fmt.Sprintf("u%d", rnd.IntN(8)), "least": rnd.IntN(12),
			}
			delete(input, []string{"role", "action", "object", "user", "least", "nothing"}[rnd.IntN(6)])
			text, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			want, err := opa.Eval(t.Context(), oparego.EvalInput(input))
			if err != nil {
				t.Fatal(err)
			}
			var res engine.Result
			err = p.Run(t.Context(), &engine.Invocation{Tenant: "acme", Args: [][]byte{text}, Config: []byte(`{"plan":"paid"}`)}, &res)
			if len(want) == 0 {
				if err == nil {
					t.Errorf("%s: %s: got %s, want no result", name, text, res.Value(0))
				}
				continue
			}
			expected, _ := json.Marshal(want[0].Bindings["x"])
			if err != nil || !sameJSON(t, value(&res), string(expected)) {
				t.Errorf("%s: %s: got %s, %v, want %s", name, text, value(&res), err, expected)
			}
		}
		p.Close()
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2]string
	for i, s := range []string{a, b} {
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(out)
	}
	return texts[0] == texts[1]
}

func value(res *engine.Result) string {
	if res.Len() == 0 {
		return `"nothing"`
	}
	return string(res.Value(0))
}

// TestDocumentsAreIndexed: a call does not look at each grant of a bundle.
func TestDocumentsAreIndexed(t *testing.T) {
	used := func(grants int) uint64 {
		p, err := newEngine(t).Compile(documentedSource(t, documented["scan"], documents(grants)))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var used engine.Used
		var res engine.Result
		last := grants - 2 // whose action is to read
		inv := &engine.Invocation{Args: [][]byte{fmt.Appendf(nil, `{"role":"r%d","action":"read","object":"o%d"}`, last%5, last)}, Used: &used}
		if err := p.Run(t.Context(), inv, &res); err != nil || string(res.Value(0)) != `{"allow":true}` {
			t.Fatalf("got %s, %v", value(&res), err)
		}
		return used.Instructions
	}
	if few, many := used(10), used(1000); many > few {
		t.Errorf("a call costs %d instructions among 10 grants, and %d among 1,000", few, many)
	}
}

// TestDocumentsInLog: what a policy prints is in the log of each call.
func TestDocumentsInLog(t *testing.T) {
	host := &enginetest.Host{}
	src := documentedSource(t, "package acme.p\ndecision := n if { n := count(data.grants); print(\"grants\", n) }", documents(3))
	if _, err := run(t, src, &engine.Invocation{Host: host}); err != nil || len(host.Lines()) != 1 {
		t.Errorf("logged %v, %v, want a line", host.Lines(), err)
	}
}

// TestHostileDocuments: a policy that would become too large, or take too long, before its first call runs as it was written.
func TestHostileDocuments(t *testing.T) {
	for name, policy := range map[string]string{
		"product": `package acme.p
decision := 1 if { some a in data.grants; some b in data.grants; some c in data.grants; input.x == [a.object, b.object, c.object] }
default decision := 0`,
		"loop":     "package acme.p\ndecision := count([1 | some a in numbers.range(1, 10000); some b in numbers.range(1, 10000)])",
		"operands": "package acme.p\ndecision := x if x := numbers.range(1, data.grants[0].n * 1000000000)\ndefault decision := 0",
	} {
		data := documents(200)
		data["grants"].([]any)[0].(map[string]any)["n"] = 1
		p, err := newEngine(t).Compile(documentedSource(t, policy, data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.Size() > 32<<20 {
			t.Errorf("%s: the program has %d bytes", name, p.Size())
		}
		var res engine.Result
		err = p.Run(t.Context(), &engine.Invocation{Args: [][]byte{[]byte(`{}`)}}, &res)
		if kind := script.KindOf(err); err != nil && kind != script.Limit && kind != script.Timeout {
			t.Errorf("%s: %v", name, err)
		}
		p.Close()
	}
}

// BenchmarkDocuments searches a bundle of grants.
func BenchmarkDocuments(b *testing.B) {
	for _, grants := range []int{10, 1000} {
		for _, target := range []string{script.RegoTargetInterpreted, script.RegoTargetWasm} {
			b.Run(fmt.Sprintf("%s-%d", target, grants), func(b *testing.B) {
				src := documentedSource(b, documented["scan"], documents(grants))
				src.Runtime.Rego.Target = target
				start := time.Now()
				p, err := newEngine(b).Compile(src)
				if err != nil {
					b.Fatal(err)
				}
				compiled := time.Since(start)
				defer p.Close()
				inv := &engine.Invocation{Limits: script.MaxLimits(), Args: [][]byte{fmt.Appendf(nil, `{"role":"r%d","action":"read","object":"o%d"}`, grants/2%5, grants/2)}}
				var res engine.Result
				for b.Loop() {
					res.Reset()
					if err := p.Run(b.Context(), inv, &res); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(compiled.Milliseconds()), "ms-compile")
			})
		}
		b.Run(fmt.Sprintf("opa-%d", grants), func(b *testing.B) {
			q, err := oparego.New(oparego.Query("data.acme.p.decision"), oparego.Module("p.rego", documented["scan"]), oparego.Store(inmem.NewFromObject(documents(grants)))).PrepareForEval(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			input := map[string]any{"role": fmt.Sprintf("r%d", grants/2%5), "action": "read", "object": fmt.Sprintf("o%d", grants/2)}
			for b.Loop() {
				if r, err := q.Eval(b.Context(), oparego.EvalInput(input)); err != nil || len(r) != 1 {
					b.Fatal(r, err)
				}
			}
		})
	}
}
