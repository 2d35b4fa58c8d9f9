package rego_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/engine/rego"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestBothWays: what a policy says does not depend on how it runs.
func TestBothWays(t *testing.T) {
	clock := func() time.Time { return time.Unix(1_700_000_000, 5) }
	for body, want := range map[string]string{
		`decision := time.now_ns()`: `1700000000000000005`,
		`decision := [rand.intn("a", 1000) == rand.intn("a", 1000), count(uuid.rfc4122("x"))]`: `[true,36]`,
		`decision := data.values.plain`:                                              `"not json"`,
		`decision := data.values["object"].n`:                                        `[1,2]`,
		`decision := data.values.object.n[1]`:                                        `2`,
		`decision := data.values["10"]["3"]`:                                         `"x"`,
		`decision := sort([k | some k, _ in data.values])`:                           `["10","object","plain"]`,
		`decision := data.values[input.key].n[0]`:                                    `1`,
		`decision := object.get(data.values, "none", "d")`:                           `"d"`,
		`decision := {k: v | some k, v in data.config}`:                              `{"a":1}`,
		`decision := regex.find_n("[a-z]+", "ab 12 cd", -1)`:                         `["ab","cd"]`,
		`decision := {1, "a", [2]} | {{"b": 3}}`:                                     `[1,"a",[2],{"b":3}]`,
		`decision := json.patch({"a": 1}, [{"op": "add", "path": "b", "value": 2}])`: `{"a":1,"b":2}`,
		`decision := [x | walk({"a": [1]}, [_, x]); is_number(x)]`:                   `[1]`,
		`decision := 0.1 + 0.2`:                                                      `0.3`,
		`decision := {"x": base64.encode("ä")}`:                                      `{"x":"w6Q="}`,
		`decision := base64.decode("/w==")`:                                          `"` + "\uFFFD" + `"`,
		"decision := f(2)\nf(x) := x * 21":                                           `42`,
		`decision := input.list[_] if input.list[_] == 9`:                            ``,
		`decision := to_number(input.key)`:                                           ``,
		`decision := {[1]: 2}`:                                                       ``,
	} {
		var got [2]string
		for i, target := range []string{"interpreted", "wasm"} {
			host := &enginetest.Host{Values: map[string]map[string]string{"acme": {"plain": "not json", "object": `{"n":[1,2]}`, "10": `{"3":"x"}`}}}
			inv := &engine.Invocation{
				Tenant: "acme", Args: [][]byte{[]byte(`{"key":"object","list":[1]}`)}, Config: []byte(`{"a":1}`), Host: host,
				Clock: clock, Random: rand.NewPCG(1, 2), Limits: script.Limits{Timeout: 10 * time.Second},
			}
			text, err := run(t, source("package acme\n\n"+body, target), inv)
			if want == "" && script.KindOf(err) != script.Script || want != "" && (err != nil || text != want) {
				t.Errorf("%s: %s: got %s, %v, want %s", target, body, text, err, want)
			}
			got[i] = text
		}
		if want != "" && got[0] != got[1] {
			t.Errorf("%s: interpreted %s, wasm %s", body, got[0], got[1])
		}
	}
}

// TestIsolated: a policy that has to be interpreted runs only where the tenant has a process of its own.
func TestIsolated(t *testing.T) {
	e, err := rego.New(rego.Config{})
	if err != nil {
		t.Fatal(err)
	}
	src := source("package p\n\nallow := true", "interpreted")
	if err := e.Check(src); err != nil {
		t.Errorf("Check: %v", err)
	}
	if _, err := e.Compile(src); script.KindOf(err) != script.Script || !strings.Contains(err.Error(), "isolation: process") {
		t.Errorf("Compile: %v", err)
	}
}

// TestOnResponse: the rule on_response gets the request and the response.
func TestOnResponse(t *testing.T) {
	for _, target := range []string{"interpreted", "wasm"} {
		src := source("package p\n\nallow := true\n\non_response := {\"status\": input.response.status + 1} if input.request.path == \"/a\"\n", target)
		p, err := newEngine(t).Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		if !p.OnResponse() {
			t.Error("it has no on_response")
		}
		for path, want := range map[string]int{"/a": 1, "/b": 0} {
			var res engine.Result
			inv := &engine.Invocation{OnResponse: true, Args: [][]byte{[]byte(`{"path":"` + path + `"}`), []byte(`{"status":500}`)}}
			if err := p.Run(t.Context(), inv, &res); err != nil || res.Len() != want || want == 1 && string(res.Value(0)) != `{"status":501}` {
				t.Errorf("%s: %s: %d results, %v", target, path, res.Len(), err)
			}
		}
	}
}

// TestRefusedFunction: an error says why a function is missing.
func TestRefusedFunction(t *testing.T) {
	err := (rego.Checker{}).Check(source("package p\n\nallow if http.send({}).ok", ""))
	if script.KindOf(err) != script.Script || !strings.Contains(err.Error(), "waits for nothing outside") || script.AsError(err).Line != 3 {
		t.Errorf("got %v", err)
	}
}
