package compile

import (
	"errors"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// What FunctionNames calls functions without a name of their own.
const (
	anonymous = "function"
	several   = "functions" // which begin on one line
)

// maxNameTokens are looked at before a function, for what it is assigned to.
const maxNameTokens = 8

// FunctionNames returns how the functions of a source are called, by the line on which each begins: that
// is how samples of profiles tell functions. It reads no more of the source than its tokens.
func FunctionNames(code []byte) map[int]string {
	names := map[int]string{}
	name := func(line int, name string) {
		if known, ok := names[line]; ok && known != name {
			name = several
		}
		names[line] = name
	}
	s := newScanner(string(code))
	var before []token
	for t := s.next(); t.kind != tokenEnd && t.kind != tokenUnfinished; t = s.next() {
		if t.kind == tokenKeyword && t.text == "function" {
			declared, begins := declaredName(s)
			switch {
			case declared != "":
				name(begins.line, declared) // where the parser has it begin
			default:
				name(t.line, assignedName(before))
			}
			before = before[:0]
			continue
		}
		if before = append(before, t); len(before) > maxNameTokens {
			before = before[1:]
		}
	}
	return names
}

// NameStack gives the functions of an error's stack the names that they have in the source.
func NameStack(err error, code []byte) {
	e, ok := errors.AsType[*script.Error](err)
	if !ok || len(e.Stack) == 0 {
		return
	}
	names := FunctionNames(code)
	for i := range e.Stack {
		line, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(e.Stack[i].Function, "<line "), ">"))
		if name := names[line]; err == nil && name != "" && name != anonymous && name != several {
			e.Stack[i].Function = name[:min(len(name), script.MaxFunctionBytes)]
		}
	}
}

// declaredName returns the name that follows the keyword, if one does, and the token after it.
func declaredName(s *scanner) (string, token) {
	var name strings.Builder
	t := s.next()
	for ; t.kind == tokenName || t.text == "." || t.text == ":"; t = s.next() {
		name.WriteString(t.text)
	}
	return name.String(), t
}

// assignedName returns what a function expression is assigned to, if it is to a name.
func assignedName(before []token) string {
	n := len(before)
	if n < 2 || before[n-1].text != "=" || before[n-2].kind != tokenName {
		return anonymous
	}
	from := n - 2
	for from >= 2 && (before[from-1].text == "." || before[from-1].text == ":") && before[from-2].kind == tokenName {
		from -= 2
	}
	var name strings.Builder
	for _, t := range before[from : n-1] {
		name.WriteString(t.text)
	}
	return name.String()
}
