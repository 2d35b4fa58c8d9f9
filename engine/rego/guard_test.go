package rego_test

import (
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestGuards: what would take too long, or make too much, ends soon.
func TestGuards(t *testing.T) {
	needs.NoRace(t)
	for name, body := range map[string]string{
		"width":     `decision := sprintf("%900000d", [1])`,
		"star":      `decision := sprintf("%*d", [1000000, 1])`,
		"index":     `decision := sprintf(concat("", [x | some _ in numbers.range(1, 50000); x := "%[1]s"]), [concat("", ["x" | some _ in numbers.range(1, 50000)])])`,
		"range":     `decision := count(numbers.range(1, 1000000000))`,
		"step":      `decision := count(numbers.range_step(1, 1000000000, 2))`,
		"shift":     `decision := bits.lsh(1, 100000000000)`,
		"squares":   "x0 := 99999999999\nx1 := x0 * x0\nx2 := x1 * x1\nx3 := x2 * x2\nx4 := x3 * x3\nx5 := x4 * x4\nx6 := x5 * x5\nx7 := x6 * x6\nx8 := x7 * x7\nx9 := x8 * x8\ndecision := x9 * x9",
		"unit":      `decision := units.parse_bytes("1e999999999")`,
		"doubling":  "x0 := concat(\"\", [s | some _ in numbers.range(1, 90000); s := \"0123456789\"])\nx1 := concat(\"\", [x0, x0])\nx2 := concat(\"\", [x1, x1])\nx3 := concat(\"\", [x2, x2])\ndecision := count(concat(\"\", [x3, x3]))",
		"regex":     `decision := regex.replace(concat("", [s | some _ in numbers.range(1, 90000); s := "aaaaaaaaaa"]), "((a{1,99}){1,9}){1,9}b", "x")`,
		"iteration": `decision := count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b + 100000])`,
	} {
		for _, target := range []string{"interpreted", "wasm"} {
			t.Run(name+"/"+target, func(t *testing.T) {
				begin := time.Now()
				inv := &engine.Invocation{Limits: script.Limits{Instructions: 10_000_000, Timeout: 10 * time.Second}}
				got, err := run(t, source("package p\n"+body, target), inv)
				if kind := script.KindOf(err); kind != script.Limit && kind != script.Timeout && (target != "wasm" || kind != script.Script) {
					t.Errorf("got %.80s, %v, want an error of kind %s", got, err, script.Limit)
				}
				t.Logf("%v after %v", err, time.Since(begin))
			})
		}
	}
}

// TestGuardsOfPairs: functions that look at each part of one operand for each part of the other refuse large ones.
func TestGuardsOfPairs(t *testing.T) {
	needs.NoRace(t)
	text := func(s, end string) string { return `"` + strings.Repeat(s, 30_000) + end + `"` }
	list := func(s, end string) string { return "[" + strings.Repeat(s+",", 4_000) + end + "]" }
	for name, test := range map[string]struct{ body, input string }{
		"indexof":    {`decision := indexof(input[0], input[1])`, "[" + text("éé", "") + "," + text("é", "b") + "]"},
		"indexof_n":  {`decision := indexof_n(input[0], input[1])`, "[" + text("éé", "") + "," + text("é", "b") + "]"},
		"trim":       {`decision := trim(input[0], input[1])`, "[" + text("é", "") + "," + text("ü", "é") + "]"},
		"trim_left":  {`decision := trim_left(input[0], input[1])`, "[" + text("é", "") + "," + text("ü", "é") + "]"},
		"trim_right": {`decision := trim_right(input[0], input[1])`, "[" + text("é", "") + "," + text("ü", "é") + "]"},
		"networks":   {`decision := net.cidr_contains_matches(input[0], input[1])`, "[" + list(`"10.0.0.0/24"`, `"10.0.0.0/24"`) + "," + list(`"11.0.0.1"`, `"11.0.0.1"`) + "]"},
		"subset":     {`decision := object.subset(input[0], input[1])`, "[" + list("1,1", "1") + "," + list("1", "2") + "]"},
		"member":     {`decision := object.subset(input[0], input[1])`, `[{"a":{"b":` + list("1,1", "1") + `}},{"a":{"b":` + list("1", "2") + "}}]"},
	} {
		for _, target := range []string{"interpreted", "wasm"} {
			t.Run(name+"/"+target, func(t *testing.T) {
				inv := &engine.Invocation{Args: [][]byte{[]byte(test.input)}, Limits: script.Limits{Instructions: 100_000_000, Timeout: 10 * time.Second}}
				got, err := run(t, source("package p\n"+test.body, target), inv)
				if kind := script.KindOf(err); kind != script.Limit && (target != "wasm" || kind != script.Timeout) {
					t.Errorf("got %.80s, %v, want an error of kind %s", got, err, script.Limit)
				}
			})
		}
	}
}
