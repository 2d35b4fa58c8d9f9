// Package scriptrepl runs lines that a person types, with a script around them: in the engine of agents and under the
// script's limits. Each line is one call. The source of the script is executed first, so the line sees what it defines.
// Between lines, only global variables stay that JSON can say: the next call gets them as it gets a request's members.
package scriptrepl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Chunk is the name of the function that runs a script without entrypoint.
const Chunk = "chunk"

// Input is what errors call the text that a person typed, as if it were a file.
const Input = "input"

// before and after are around a line. What the chunk returns first has the globals to keep, and the names of those that
// JSON cannot say.
const (
	before = `return (function(...)
  local saved, lost = {}, {}
  for name, value in pairs(_G) do
    if type(name) == "string" and name ~= "_G" then
      if type(value) ~= "function" and pcall(json.encode, value) then saved[name] = value else lost[#lost + 1] = name end
    end
  end
  return {saved = saved, lost = table.concat(lost, "\n")}, ...
end)((function()
`
	after = "\nend)())\n"
)

// Session is a script and the variables of its lines. It is not safe for concurrent use.
type Session struct {
	engines  *engines.Set
	manifest *manifest.Manifest
	call     func() offline.Call
	prologue string // the script's source, and what is before a line
	lines    int    // of prologue
	hidden   bool   // see Hidden
	globals  json.RawMessage
	own      []string // globals of the script that JSON cannot say, such as its functions
}

// Outcome is what came of a line.
type Outcome struct {
	Results []json.RawMessage
	// Lost are global variables of the line that the next line does not see, since JSON cannot say them.
	Lost []string
}

// New returns a session with the script, which compiles. It runs the script's source once, without log lines. Each line is then made
// of what call returns. An error has its place in the script's file.
func New(ctx context.Context, set *engines.Set, m *manifest.Manifest, call func() offline.Call) (*Session, error) {
	s := &Session{engines: set, manifest: m, call: call, globals: json.RawMessage("{}")}
	source := string(m.Source)
	if m.Entrypoint == "" {
		source = "function " + Chunk + "(...) " + source + "\nend"
	} else if set.Lua.Check(engine.Source{Code: []byte(source + "\n" + before + after)}) != nil {
		s.hidden = true // nothing may follow the return at its end
		source = "(function(...) " + source + "\nend)()"
	}
	s.prologue = source + "\n" + before
	s.lines = strings.Count(s.prologue, "\n")
	first := call()
	first.Log = nil
	out, err := s.eval(ctx, &first, "")
	if err != nil {
		return nil, err
	}
	s.own, s.globals = out.Lost, json.RawMessage("{}")
	return s, nil
}

// Hidden reports whether lines see none of the script's local variables, because it ends with return.
func (s *Session) Hidden() bool { return s.hidden }

// Incomplete reports whether the text is the beginning of a statement or of an expression: what is wrong with it is its
// end.
func (s *Session) Incomplete(text string) bool {
	if s.engines.Lua.Check(engine.Source{Code: []byte(s.statement(text))}) == nil {
		return false
	}
	for _, code := range []string{text + "\n", "return " + text + "\n"} {
		e, ok := errors.AsType[*script.Error](s.engines.Lua.Check(engine.Source{Code: []byte(code)}))
		if ok && e.Line > strings.Count(text, "\n")+1 {
			return true
		}
	}
	return false
}

// statement returns the text as statements: an expression is returned.
func (s *Session) statement(text string) string {
	returned := "return " + text + "\n"
	if s.engines.Lua.Check(engine.Source{Code: []byte(returned)}) == nil {
		return returned
	}
	return text + "\n"
}

// Eval runs the text. After an error all variables are as before. The error has its place in the text, or in the
// script's file.
func (s *Session) Eval(ctx context.Context, text string) (*Outcome, error) {
	code := s.statement(text)
	if err := s.engines.Lua.Check(engine.Source{Code: []byte(code)}); err != nil {
		return nil, s.locate(err, 0)
	}
	call := s.call()
	out, err := s.eval(ctx, &call, code)
	if err != nil {
		return nil, err
	}
	out.Lost = slices.DeleteFunc(out.Lost, func(name string) bool { return slices.Contains(s.own, name) })
	return out, nil
}

// Reset forgets all variables of lines.
func (s *Session) Reset() { s.globals = json.RawMessage("{}") }

func (s *Session) eval(ctx context.Context, call *offline.Call, code string) (*Outcome, error) {
	program, err := offline.Compile(s.engines, &script.Edition{Version: script.Version{Engine: script.EngineLua}, Spec: s.manifest.Settings.Spec, Source: []byte(s.prologue + code + after)})
	if err != nil {
		return nil, s.locate(err, s.lines)
	}
	out := &Outcome{Results: []json.RawMessage{}}
	call.Args = [][]byte{s.globals}
	var returned engine.Result
	if err := program.Run(ctx, call, &returned); err != nil {
		return nil, s.locate(err, s.lines)
	}
	if err := s.keep(returned.Value(0), out); err != nil {
		return nil, err
	}
	for i := range returned.Len() - 1 {
		out.Results = append(out.Results, bytes.Clone(returned.Value(i+1)))
	}
	return out, nil
}

// keep keeps the globals for the next line.
func (s *Session) keep(state []byte, out *Outcome) error {
	var kept struct {
		Saved json.RawMessage
		Lost  string
	}
	if err := json.Unmarshal(state, &kept); err != nil {
		return err
	}
	s.globals = bytes.Clone(kept.Saved)
	if string(kept.Saved) == "[]" { // as an empty table is
		s.Reset()
	}
	out.Lost = strings.FieldsFunc(kept.Lost, func(r rune) bool { return r == '\n' })
	slices.Sort(out.Lost)
	return nil
}

// locate returns the error with its place; the text begins after so many lines.
func (s *Session) locate(err error, lines int) error {
	e, ok := errors.AsType[*script.Error](err)
	if !ok || e.Line <= lines {
		return s.manifest.Locate(err)
	}
	return &manifest.Error{File: Input, Line: e.Line - lines, Message: e.Message, Err: err}
}
