package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (s *suite) testName(t *testing.T) {
	if got := s.newEngine().Name(); got != s.Name {
		t.Errorf("Name() = %q, want %q", got, s.Name)
	}
}

func (s *suite) testCheck(t *testing.T) {
	e := s.newEngine()
	tests := []struct {
		name, source, entrypoint string
		kind                     script.Kind
		line                     int
		text                     bool // it is about programs that are texts
	}{
		{name: "good", source: s.Echo, entrypoint: Entrypoint},
		{name: "chunk", source: s.Chunk},
		{name: "broken", source: s.Broken, entrypoint: Entrypoint, kind: script.Script, line: s.BrokenLine},
		{name: "no entrypoint", source: s.NoEntrypoint, entrypoint: Entrypoint, kind: script.Script},
		{name: "NUL", source: s.Echo + "\x00", entrypoint: Entrypoint, kind: script.Invalid, text: true},
		{name: "not UTF-8", source: s.Echo + "\xff", entrypoint: Entrypoint, kind: script.Invalid, text: true},
		{name: "too large", source: s.Echo + strings.Repeat("\n", script.MaxSourceBytes), entrypoint: Entrypoint, kind: script.Limit, text: true},
		{name: "bad entrypoint", source: s.Echo, entrypoint: "no name", kind: script.Invalid, text: true},
		{name: "would not end", source: s.SpinLoad, entrypoint: Entrypoint}, // never run by Check
	}
	for _, test := range tests {
		if test.source == "" || s.Opaque && test.text {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			src := engine.Source{Code: []byte(test.source), Entrypoint: test.entrypoint}
			err := e.Check(src)
			wantError(t, err, test.kind)
			if test.line != 0 && script.AsError(err).Line != test.line {
				t.Errorf("line = %d, want %d: %v", script.AsError(err).Line, test.line, err)
			}
			p, compileErr := e.Compile(src)
			if fmt.Sprint(compileErr) != fmt.Sprint(err) {
				t.Errorf("Compile says %v, Check says %v", compileErr, err)
			}
			if compileErr == nil && p.Size() <= 0 {
				t.Errorf("Size() = %d", p.Size())
			}
		})
	}
}

// wantError fails unless err is a *script.Error of the kind, or nil if kind is "".
func wantError(t *testing.T, err error, kind script.Kind) {
	t.Helper()
	if err == nil {
		if kind != "" {
			t.Errorf("no error, want one of kind %s", kind)
		}
		return
	}
	e, ok := errors.AsType[*script.Error](err)
	switch {
	case !ok:
		t.Errorf("error is a %T, want *script.Error: %v", err, err)
	case e.Kind != kind:
		t.Errorf("error is of kind %q, want %q: %v", e.Kind, kind, err)
	case e.Message == "":
		t.Errorf("error of kind %s has no message", e.Kind)
	}
}

func (s *suite) testCompileKeepsNoSource(t *testing.T) {
	code := []byte(s.Constant)
	p, err := s.newEngine().Compile(engine.Source{Code: code, Entrypoint: Entrypoint})
	if err != nil {
		t.Fatal(err)
	}
	clear(code)
	wantValues(t, p, invocation(), "42")
}

func wantValues(t *testing.T, p engine.Program, inv *engine.Invocation, want ...string) {
	t.Helper()
	got, err := call(t, p, inv)
	if err != nil {
		t.Errorf("Run: %v", err)
	} else if !slices.Equal(got, want) {
		t.Errorf("results = %q, want %q", got, want)
	}
}

func (s *suite) testRoundTrip(t *testing.T) {
	p := s.program(t, s.Echo)
	for _, value := range []string{
		`null`, `true`, `false`, `0`, `-1`, `1.5`, `1e+300`, `9007199254740992`, `-9007199254740992`, `123456789012`,
		`""`, `"text"`, `"a\"b\\c\nd\te"`, `"\u0001"`, `"grüße 🎉"`,
		`[]`, `{}`, `[[]]`, `[{}]`, `{"a":[]}`, `[null]`, `[null,1,null]`, `[1,"two",[3],{"four":4}]`, `{"a":null}`,
		`{"one":1,"nested":{"list":[1,2,3],"empty":{}},"text":"x"}`, `{"1":"one","2":"two"}`, `{"":1}`,
		strings.Repeat("[", 30) + strings.Repeat("]", 30),
	} {
		got, err := call(t, p, invocation(value))
		if err != nil {
			t.Errorf("%s: %v", value, err)
		} else if len(got) != 1 || got[0] != s.written(value) {
			t.Errorf("%s came back as %q", value, got)
		}
	}
	wantValues(t, p, invocation(" { \"a\" : [ 1 , 2 ] } \n"), `{"a":[1,2]}`)
	if s.Opaque {
		return
	}
	wantValues(t, p, invocation(`"\u00e9\uD83C\uDF89\/"`), `"é🎉/"`)
	wantValues(t, p, invocation(`1.0`), `1`)
}

func (s *suite) testSeveralValues(t *testing.T) {
	if s.OneArgument {
		_, err := call(t, s.program(t, s.Echo), invocation(`1`, `2`))
		wantError(t, err, script.Invalid)
		return
	}
	p := s.program(t, s.Echo)
	wantValues(t, p, invocation())
	wantValues(t, p, invocation(`1`, `"two"`, `null`, `[]`, `null`), `1`, `"two"`, `null`, `[]`, `null`)
}

func (s *suite) testAppends(t *testing.T) {
	p := s.program(t, s.Echo)
	var res engine.Result
	for _, arg := range []string{`1`, `"two"`} {
		if err := p.Run(t.Context(), invocation(arg), &res); err != nil {
			t.Fatal(err)
		}
	}
	if got := values(&res); !slices.Equal(got, []string{`1`, `"two"`}) {
		t.Errorf("results = %q", got)
	}
}

func (s *suite) testBadArguments(t *testing.T) {
	p := s.program(t, s.Echo)
	for _, arg := range []string{
		``, ` `, `nul`, `nulll`, `tru`, `01`, `1.`, `.5`, `+1`, `-`, `1e`, `0x10`, `NaN`, `Infinity`, `1e999`, `'a'`,
		`"a`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", `[`, `[1`, `[1,]`, `[,1]`, `]`, `{`, `{"a"`, `{"a":`, `{"a":1,}`, `{a:1}`, `{1:1}`,
		`1 2`, `{} {}`, `[] x`, `// 1`, strings.Repeat("[", 100_000), strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"[" + strings.Repeat("1,", 100_000) + "1]",
	} {
		if s.Opaque && json.Valid([]byte(arg)) && !strings.HasPrefix(arg, "[[") {
			continue // too large a number, or too many values
		}
		args, at := []string{`1`, arg}, "args[1]"
		if s.OneArgument {
			args, at = []string{arg}, "args[0]"
		}
		_, err := call(t, p, invocation(args...))
		if script.KindOf(err) != script.Invalid {
			t.Errorf("argument %.40q: error = %v, want one of kind INVALID", arg, err)
		} else if field := script.AsError(err).Field; field != at {
			t.Errorf("argument %.40q: field = %q, want %s", arg, field, at)
		}
	}
	wantValues(t, p, invocation(`1`), `1`)
}

func (s *suite) testChunk(t *testing.T) {
	if s.Chunk == "" {
		t.Skip("a program has an entrypoint")
	}
	p := s.compile(t, s.newEngine(), s.Chunk, "")
	wantValues(t, p, invocation(`{"obj":{"kind":"Rollout","list":[]}}`), `{"kind":"Rollout","list":[]}`)
	wantValues(t, p, invocation(`{"other":1}`), `null`)
	wantValues(t, p, invocation(), `null`)
	for _, args := range [][]string{{`[]`}, {`1`}, {`{"a"`}, {`{}`, `{}`}} {
		_, err := call(t, p, invocation(args...))
		wantError(t, err, script.Invalid)
	}
	wantValues(t, s.compile(t, s.newEngine(), s.ChunkTwice, ""), invocation(), `1`, `2`)
}

func (s *suite) testConfig(t *testing.T) {
	e := s.newEngine()
	p := s.compile(t, e, s.Config, Entrypoint)
	for _, config := range []string{`{"limit":10}`, `{"limit":20,"list":[]}`} {
		inv := invocation()
		inv.Config = []byte(config)
		wantValues(t, p, inv, config)
	}
	wantValues(t, p, invocation(), `{}`)
	inv := invocation()
	inv.Config = []byte(`[]`)
	_, err := call(t, p, inv)
	wantError(t, err, script.Invalid)

	if s.ConfigKeep == "" {
		return
	}
	keep := s.compile(t, e, s.ConfigKeep, Entrypoint)
	for range 3 {
		wantValues(t, keep, invocation(), `null`)
	}
}

func (s *suite) testFreshEnvironment(t *testing.T) {
	p := s.program(t, s.Count)
	for range 100 {
		wantValues(t, p, invocation(), `1`)
	}
}

func (s *suite) testScriptError(t *testing.T) {
	p := s.program(t, s.Fail)
	_, err := call(t, p, invocation())
	wantError(t, err, script.Script)
	e := script.AsError(err)
	if !strings.Contains(e.Message, "boom") || e.Line != s.FailLine {
		t.Errorf("error = %q at line %d, want boom at line %d", e.Message, e.Line, s.FailLine)
	}
}

func (s *suite) testResults(t *testing.T) {
	e := s.newEngine()
	_, err := call(t, s.compile(t, e, s.Unencodable, Entrypoint), invocation())
	wantError(t, err, script.Script)
	if s.Cycle != "" {
		_, err = call(t, s.compile(t, e, s.Cycle, Entrypoint), invocation())
		if kind := script.KindOf(err); kind != script.Script && kind != script.Limit {
			t.Errorf("cycle: error = %v (%s), want one of kind SCRIPT or LIMIT", err, kind)
		}
	}
	p := s.compile(t, e, s.Repeat, Entrypoint)
	inv := invocation(`1000`)
	inv.Limits.ResultBytes = 1002
	wantValues(t, p, inv, `"`+strings.Repeat("x", 1000)+`"`)
	inv.Limits.ResultBytes = 1001
	_, err = call(t, p, inv)
	wantError(t, err, script.Limit)

	if s.Opaque || s.Declarative {
		return
	}
	inv = invocation(`1001`)
	inv.Limits.StringBytes = 1000
	_, err = call(t, p, inv)
	wantError(t, err, script.Limit)
}
