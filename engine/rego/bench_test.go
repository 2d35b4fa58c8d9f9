package rego_test

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

const benchPolicy = `package acme.route

default decision := {"allow": false}

decision := {"allow": true, "upstream": upstream} if {
	input.method in {"GET", "HEAD"}
	startswith(input.path, "/cart")
	some role in input.user.roles
	role in {"buyer", "admin"}
}

upstream := "canary" if input.headers["x-canary"] == "yes"

else := "stable"
`

const benchInput = `{"method":"GET","scheme":"https","host":"shop.example","path":"/cart/items","query":"page=2","headers":{"user-agent":"curl/8.5",
"accept":"*/*","x-canary":"yes","x-request-id":"7b3f"},"remote_addr":"192.0.2.7","user":{"name":"ann","roles":["reader","buyer"]}}`

// BenchmarkCall compares a call with OPA's own prepared query, which gets the same text.
func BenchmarkCall(b *testing.B) {
	for _, target := range []string{"interpreted", "wasm"} {
		b.Run(target, func(b *testing.B) {
			p, err := newEngine(b).Compile(source(benchPolicy, target))
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			inv := &engine.Invocation{Tenant: "acme", Limits: script.MaxLimits(), Args: [][]byte{[]byte(benchInput)}}
			var res engine.Result
			b.ReportAllocs()
			for b.Loop() {
				res.Reset()
				if err := p.Run(b.Context(), inv, &res); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("opa", func(b *testing.B) {
		q, err := oparego.New(oparego.Query("data.acme.route.decision"), oparego.Module("p.rego", benchPolicy)).PrepareForEval(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			var input any
			if err := util.UnmarshalJSON([]byte(benchInput), &input); err != nil {
				b.Fatal(err)
			}
			v, err := ast.InterfaceToValue(input)
			if err != nil {
				b.Fatal(err)
			}
			if r, err := q.Eval(b.Context(), oparego.EvalParsedInput(v)); err != nil || len(r) != 1 {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("opa-parsed", func(b *testing.B) { // the input costs nothing, and the result is not JSON
		q, err := oparego.New(oparego.Query("data.acme.route.decision"), oparego.Module("p.rego", benchPolicy)).PrepareForEval(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		input := ast.MustParseTerm(benchInput).Value
		for b.Loop() {
			if r, err := q.Eval(b.Context(), oparego.EvalParsedInput(input)); err != nil || len(r) != 1 {
				b.Fatal(r, err)
			}
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for _, target := range []string{"interpreted", "wasm"} {
		b.Run(target, func(b *testing.B) {
			e := newEngine(b)
			for b.Loop() {
				p, err := e.Compile(source(benchPolicy, target))
				if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
		})
	}
}
