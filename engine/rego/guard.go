package rego

import (
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The bounds of what one call of a function may make or work through.
const (
	maxText      = 4 << 20 // bytes of a text that a function makes
	maxElements  = 100_000 // of an array that a function makes
	maxNumber    = 2000    // digits of an operand of a multiplication
	maxShift     = 4096
	maxWidth     = 1000 // of a directive of sprintf
	maxIndent    = 64   // bytes of an indent or prefix of json.marshal_with_options
	maxPatches   = 1000 // of json.patch
	maxRegexWork = 20_000_000
	maxGlobWork  = 1_000_000
	maxUnit      = 64       // bytes of a number with a unit
	maxCompared  = 64 << 20 // pairs of bytes, where a function compares each of one text with each of another
	maxPairs     = 1 << 20  // pairs of elements, where a function compares each of one list with each of another
)

// guards refuse operands for which a function of OPA would use time or memory out of proportion to them. Nothing can stop
// such a function while it runs.
var guards = map[string]func(operands []*ast.Term) bool{
	"sprintf":                          func(o []*ast.Term) bool { return formats(text(o[0]), o[1]) },
	"numbers.range":                    func(o []*ast.Term) bool { return within(o[0], o[1]) },
	"numbers.range_step":               func(o []*ast.Term) bool { return within(o[0], o[1]) },
	"bits.lsh":                         func(o []*ast.Term) bool { n, ok := integer(o[1]); return ok && n <= maxShift && small(o[0]) },
	"mul":                              func(o []*ast.Term) bool { return small(o[0]) && small(o[1]) },
	"product":                          func(o []*ast.Term) bool { return allSmall(o[0]) },
	"units.parse":                      func(o []*ast.Term) bool { return isUnit(text(o[0])) },
	"units.parse_bytes":                func(o []*ast.Term) bool { return isUnit(text(o[0])) },
	"concat":                           func(o []*ast.Term) bool { return joins(text(o[0]), o[1]) },
	"replace":                          func(o []*ast.Term) bool { return (len(text(o[0]))+1)*(len(text(o[2]))+1) <= maxText },
	"strings.replace_n":                func(o []*ast.Term) bool { return replaces(o[0], len(text(o[1]))) },
	"array.concat":                     func(o []*ast.Term) bool { return length(o[0])+length(o[1]) <= maxElements },
	"indexof":                          func(o []*ast.Term) bool { return crossed(o[0], o[1]) },
	"indexof_n":                        func(o []*ast.Term) bool { return crossed(o[0], o[1]) },
	"trim":                             func(o []*ast.Term) bool { return crossed(o[0], o[1]) },
	"trim_left":                        func(o []*ast.Term) bool { return crossed(o[0], o[1]) },
	"trim_right":                       func(o []*ast.Term) bool { return crossed(o[0], o[1]) },
	"net.cidr_contains_matches":        func(o []*ast.Term) bool { return paired(o[0], o[1]) },
	"object.subset":                    func(o []*ast.Term) bool { return subsets(o[0], o[1]) },
	"json.patch":                       func(o []*ast.Term) bool { return length(o[1]) <= maxPatches },
	"json.marshal_with_options":        func(o []*ast.Term) bool { return indents(o[1]) },
	"glob.match":                       func(o []*ast.Term) bool { return len(text(o[0]))*(len(text(o[2]))+1) <= maxGlobWork },
	"regex.match":                      func(o []*ast.Term) bool { return searches(o[0], o[1], 0) },
	"re_match":                         func(o []*ast.Term) bool { return searches(o[0], o[1], 0) },
	"regex.find_n":                     func(o []*ast.Term) bool { return searches(o[0], o[1], 0) && finds(o[1], o[2]) },
	"regex.find_all_string_submatch_n": func(o []*ast.Term) bool { return searches(o[0], o[1], 0) && finds(o[1], o[2]) },
	"regex.split":                      func(o []*ast.Term) bool { return searches(o[0], o[1], 0) },
	"regex.replace":                    func(o []*ast.Term) bool { return searches(o[1], o[0], len(text(o[2]))) },
	"regex.template_match":             func(o []*ast.Term) bool { return searches(o[0], o[1], 0) },
	"io.jwt.verify_rs256":              verifies,
	"io.jwt.verify_rs384":              verifies,
	"io.jwt.verify_rs512":              verifies,
	"io.jwt.verify_ps256":              verifies,
	"io.jwt.verify_ps384":              verifies,
	"io.jwt.verify_ps512":              verifies,
	"io.jwt.verify_es256":              verifies,
	"io.jwt.verify_es384":              verifies,
	"io.jwt.verify_es512":              verifies,
	"io.jwt.verify_eddsa":              verifies,
	"io.jwt.decode_verify":             verifiesWith,

	"crypto.x509.parse_and_verify_certificates":              verifiesChain,
	"crypto.x509.parse_and_verify_certificates_with_options": verifiesChain,
}

// guard is for a call of a function of OPA.
func guard(name string, operands []*ast.Term) *script.Error {
	if allowed := guards[name]; allowed != nil && !allowed(operands) {
		return script.Errorf(script.Limit, "", "%s is called with operands that would make it work for too long, or make too much", name)
	}
	return nil
}

// text returns a text, and "" for what is none: the function then refuses it.
func text(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

func integer(t *ast.Term) (int, bool) {
	n, ok := t.Value.(ast.Number)
	if !ok {
		return 0, true
	}
	return n.Int()
}

func length(t *ast.Term) int {
	switch v := t.Value.(type) {
	case *ast.Array:
		return v.Len()
	case ast.Set:
		return v.Len()
	case ast.Object:
		return v.Len()
	}
	return 0
}

// each calls visit for each element, until it says that it is enough.
func each(t *ast.Term, visit func(*ast.Term) bool) bool {
	switch v := t.Value.(type) {
	case *ast.Array:
		return !v.Until(func(e *ast.Term) bool { return !visit(e) })
	case ast.Set:
		return !v.Until(func(e *ast.Term) bool { return !visit(e) })
	case ast.Object:
		return !v.Until(func(k, e *ast.Term) bool { return !visit(k) || !visit(e) })
	}
	return true
}

// crossed reports whether each byte of a text may be compared with each of the other.
func crossed(a, b *ast.Term) bool { return len(text(a))*len(text(b)) <= maxCompared }

// paired reports whether each element of a list may be compared with each of the other.
func paired(a, b *ast.Term) bool { return length(a)*length(b) <= maxPairs }

// subsets reports whether a list may be looked for in another at each place. It is one of what an object may have as
// well, at the same depth. Sets are looked up by hash.
func subsets(super, sub *ast.Term) bool {
	switch a := super.Value.(type) {
	case *ast.Array:
		return paired(super, sub)
	case ast.Object:
		b, ok := sub.Value.(ast.Object)
		return !ok || !b.Until(func(k, v *ast.Term) bool {
			other := a.Get(k)
			return other != nil && !subsets(other, v)
		})
	}
	return true
}

func within(from, to *ast.Term) bool {
	a, okA := integer(from)
	b, okB := integer(to)
	return okA && okB && max(a, b)-min(a, b) < maxElements
}

func small(t *ast.Term) bool {
	n, ok := t.Value.(ast.Number)
	return !ok || len(n) <= maxNumber
}

func allSmall(list *ast.Term) bool {
	digits := 0
	return each(list, func(e *ast.Term) bool {
		n, _ := e.Value.(ast.Number)
		digits += len(n)
		return digits <= 2*maxNumber
	})
}

// isUnit refuses exponents: 1e999999999 is a number of a billion digits.
func isUnit(s string) bool {
	if i := strings.IndexAny(s, "eE"); i >= 0 && i+4 < len(s) {
		return false
	}
	return len(s) <= maxUnit
}

func joins(separator string, list *ast.Term) bool {
	n := length(list) * len(separator)
	return n <= maxText && each(list, func(e *ast.Term) bool { n += len(text(e)); return n <= maxText })
}

func replaces(patterns *ast.Term, length int) bool {
	longest := 0
	each(patterns, func(e *ast.Term) bool { longest = max(longest, len(text(e))); return true })
	return (length+1)*(longest+1) <= maxText
}

func indents(options *ast.Term) bool {
	return each(options, func(e *ast.Term) bool { return len(text(e)) <= maxIndent })
}

// formats reports whether what a format makes is bounded: a directive may be wide, and may repeat an operand.
func formats(format string, operands *ast.Term) bool {
	longest, directives := 0, strings.Count(format, "%")
	each(operands, func(e *ast.Term) bool { longest = max(longest, e.Value.StringLength()); return true })
	for rest := format; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		number := 0
		for n := 0; n < len(rest) && strings.IndexByte("0123456789+-# .[]*", rest[n]) >= 0; n++ {
			switch c := rest[n]; {
			case c == '*':
				return false
			case c < '0' || c > '9':
				number = 0
			default:
				if number = number*10 + int(c-'0'); number > maxWidth {
					return false
				}
			}
		}
	}
	return len(format)+directives*(longest+maxWidth) <= maxText
}

// searches reports whether a regular expression finds an end in the text, and what it makes has one.
func searches(pattern, subject *ast.Term, replacement int) bool {
	p, n := text(pattern), len(text(subject))+1
	return n*(replacement+1) <= maxText && weight(p) <= maxRegexWork/n
}

// finds reports whether so many places may be found in the text; less than none is for all.
func finds(subject, most *ast.Term) bool {
	n, ok := integer(most)
	return ok && n >= 0 && n <= 2*maxElements || len(text(subject)) < 2*maxElements
}

// weight estimates how many instructions a regular expression becomes.
func weight(pattern string) int {
	if !strings.Contains(pattern, "{") {
		return len(pattern) + 1
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil { // or it is a template
		return len(pattern) + 1
	}
	return weightOf(tree)
}

func weightOf(tree *syntax.Regexp) int {
	n := 1 + len(tree.Rune)
	for _, sub := range tree.Sub {
		n += weightOf(sub)
	}
	if tree.Op == syntax.OpRepeat {
		n *= max(tree.Min, tree.Max, 1)
	}
	return min(n, maxRegexWork)
}

// costOf is how many instructions a call of a function of the host counts for, whose operands have so many bytes.
func costOf(name string, bytes int) int {
	switch {
	case strings.HasPrefix(name, "io.jwt.") && name != "io.jwt.decode", strings.HasPrefix(name, "crypto.x509."):
		return 100_000 + 50*bytes
	case strings.HasPrefix(name, "regex."), strings.HasPrefix(name, "crypto."):
		return 500 + 10*bytes
	}
	return 200 + bytes
}

// guardedPrefix is of the names that the functions with guards have in the interpreter: it calls its own functions by
// their names, and those of others by theirs.
const guardedPrefix = "scriptorium:"

// guarded returns the functions with guards, under their names for the interpreter.
func guarded() map[string]*topdown.Builtin {
	all := make(map[string]*topdown.Builtin, len(guards))
	for name := range guards {
		decl := *ast.BuiltinMap[name]
		decl.Name, decl.Infix = guardedPrefix+name, ""
		f := topdown.GetBuiltin(name)
		all[decl.Name] = &topdown.Builtin{Decl: &decl, Func: func(ctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
			if err := guard(name, operands); err != nil {
				return topdown.Halt{Err: err}
			}
			return f(ctx, operands, iter)
		}}
	}
	return all
}

// declarations are what the compiler has to know of the functions.
func declarations(functions map[string]*topdown.Builtin) map[string]*ast.Builtin {
	decls := make(map[string]*ast.Builtin, len(functions))
	for name, f := range functions {
		decls[name] = f.Decl
	}
	return decls
}

// guardCalls makes compiled modules call functions with guards in place of OPA's.
func guardCalls(modules map[string]*ast.Module) {
	renamed := map[string]ast.Ref{}
	for name := range guards {
		renamed[ast.BuiltinMap[name].Ref().String()] = ast.Ref{ast.VarTerm(guardedPrefix + name)}
	}
	for _, file := range slices.Sorted(maps.Keys(modules)) {
		ast.WalkTerms(modules[file], func(t *ast.Term) bool {
			if ref, ok := t.Value.(ast.Ref); ok && len(ref) <= 3 && !ref[0].Equal(ast.DefaultRootDocument) && !ref[0].Equal(ast.InputRootDocument) {
				if to, ok := renamed[ref.String()]; ok {
					t.Value = to
				}
			}
			return false
		})
	}
}
