// Package corpus reads the hostile corpus: scripts that try to hang, crash or bloat
// the process that runs them, to leave their sandbox, or to leave something behind.
// It is for tests alone.
//
// A script is a file, family/name.lua. Comments at its top say what is expected:
//
//	-- want: limit timeout       the kinds of error that may come; "fine" is none
//	-- row: string growth        the way of docs/isolation.md that it goes
//	-- alloc: 64MiB why          by how much the heap may grow, if not DefaultAlloc
//	-- coroutines: on            it needs the coroutine library
//	-- limits: most              it runs with the highest limits, and has no variants
//	-- only: process why         an engine cannot contain it; a process of its own can
//	-- as: program               it defines handle itself, and has no variants
//
// Other comments say what it does. All else is the body of a function, which the
// variants put where it runs.
package corpus

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Families are the folders of the corpus.
var Families = []string{
	"loops", "recursion", "coroutines", "patterns", "formats", "strings", "tables",
	"metatables", "environments", "errors", "results", "compile-time", "host", "builtins",
}

// DefaultAlloc is by how many bytes the heap may grow under a script that does not
// say otherwise.
const DefaultAlloc = 16 << 20

// Entrypoint is the function that the sources of all variants define.
const Entrypoint = "handle"

// Fine is the kind of error of a call that ends without one.
const Fine script.Kind = ""

// Script is one file of the corpus.
type Script struct {
	Family, Name string
	Source       string

	Want        []script.Kind // that may come of it
	Row         string        // the row of the table of ways that it stands for, or ""
	Alloc       int64         // bytes by which the heap may grow
	Coroutines  bool          // it needs the coroutine library
	ProcessOnly bool          // only a process of its own contains it
	MostLimits  bool          // it runs with script.MaxLimits
	Program     bool          // it is a whole program
}

// String returns "family/name".
func (s *Script) String() string { return s.Family + "/" + s.Name }

// Allows reports whether an error of the kind may come of running s.
func (s *Script) Allows(kind script.Kind) bool { return slices.Contains(s.Want, kind) }

// Variant is a way to run a script.
type Variant struct {
	Name   string
	Source string
	// Exact says that the call ends as the script does. Elsewhere its error may be
	// caught, or be another one by then.
	Exact bool
	// Coroutines says that the variant needs the coroutine library.
	Coroutines bool
}

// settings are where a body may run. Each is a program; %s is the body.
var settings = []struct{ name, source string }{
	{"plain", "function handle(...)\n%s\nend"},
	{"at load", "(function(...)\n%s\nend)() function handle() end"},
	{"under pcall", "function handle(...) return (pcall(function(...)\n%s\nend, ...)) end"},
	{"under pcall for ever", "function handle() while true do pcall(function(...)\n%s\nend) end end"},
	{"in an xpcall handler", "function handle() return (xpcall(error, function(...)\n%s\nend)) end"},
	{"in a coroutine", "function handle() return (coroutine.resume(coroutine.create(function(...)\n%s\nend))) end"},
	{"from a metamethod", "function handle() return setmetatable({}, {__index = function(...)\n%s\nend}).x end"},
	{"as a comparator", "function handle() table.sort({1, 2, 3}, function(...)\n%s\nend) end"},
	{"as a gsub callback", "function handle() (\"abc\"):gsub(\".\", function(...)\n%s\nend) end"},
	{"as an iterator", "function handle() for x in function(...)\n%s\nend do end end"},
	{"as the returned value", "function handle() local function f(...)\n%s\nend " +
		"return setmetatable({f = 1}, {__index = f, __tostring = f, __len = f, __call = f, __pairs = f, __metatable = f}) end"},
}

// Variants returns the ways to run s.
func (s *Script) Variants() []Variant {
	if s.Program {
		return []Variant{{Name: "plain", Source: s.Source, Exact: true, Coroutines: s.Coroutines}}
	}
	places := settings
	if s.MostLimits {
		places = settings[:1]
	}
	variants := make([]Variant, 0, len(places))
	for _, setting := range places {
		variants = append(variants, Variant{
			Name:       setting.name,
			Source:     fmt.Sprintf(setting.source, s.Source),
			Exact:      setting.name == "plain" || setting.name == "at load" && s.Family != "results",
			Coroutines: s.Coroutines || setting.name == "in a coroutine",
		})
	}
	return variants
}

// Read reads the corpus in fsys, the folder of the families, sorted by family in the
// order of Families and by name.
func Read(fsys fs.FS) ([]*Script, error) {
	var scripts []*Script
	for _, family := range Families {
		files, err := fs.Glob(fsys, family+"/*.lua")
		if err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(fsys, file)
			if err != nil {
				return nil, fmt.Errorf("corpus: %w", err)
			}
			s := &Script{
				Family: family, Name: strings.TrimSuffix(path.Base(file), ".lua"),
				Source: string(text), Alloc: DefaultAlloc,
			}
			if err := s.header(); err != nil {
				return nil, fmt.Errorf("corpus: %s: %w", file, err)
			}
			scripts = append(scripts, s)
		}
	}
	return scripts, nil
}

// header reads the comments at the top.
func (s *Script) header() error {
	for line := range strings.Lines(s.Source) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		if !ok {
			break
		}
		key, value, ok := strings.Cut(comment, ": ")
		if !ok {
			continue
		}
		if err := s.expect(key, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(s.Want) == 0 {
		return fmt.Errorf("does not say what is wanted")
	}
	return nil
}

// kinds are the words of "want".
var kinds = map[string]script.Kind{
	"fine": Fine, "script": script.Script, "limit": script.Limit, "timeout": script.Timeout, "invalid": script.Invalid,
}

func (s *Script) expect(key, value string) (err error) {
	switch key {
	case "want":
		for word := range strings.FieldsSeq(value) {
			kind, ok := kinds[word]
			if !ok {
				return fmt.Errorf("%q is no kind of error", word)
			}
			s.Want = append(s.Want, kind)
		}
	case "row":
		s.Row = value
	case "alloc":
		size, _, _ := strings.Cut(value, " ")
		mebibytes, ok := strings.CutSuffix(size, "MiB")
		if !ok {
			return fmt.Errorf("%q is no size such as 64MiB", size)
		}
		s.Alloc, err = strconv.ParseInt(mebibytes, 10, 32)
		s.Alloc <<= 20
		return err
	case "coroutines":
		s.Coroutines = value == "on"
	case "only":
		s.ProcessOnly = strings.HasPrefix(value, "process")
	case "limits":
		s.MostLimits = value == "most"
	case "as":
		s.Program = value == "program"
	}
	return nil
}
