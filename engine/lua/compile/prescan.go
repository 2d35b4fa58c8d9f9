package compile

import (
	"bytes"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// maxNesting bounds brackets and blocks within each other.
	maxNesting = 200
	// maxPendingOperators bounds the operators that the parser must keep while
	// it reads one operand: "a..b..c", "- - -1", "2^2^2".
	maxPendingOperators = 1000
)

// prescan refuses what gopher-lua's parser must not be given: what is not text,
// is too large, or would have it keep too much at once. It reads the source
// once and needs no memory that grows with it.
func prescan(code []byte) *script.Error {
	if len(code) > script.MaxSourceBytes {
		return script.Errorf(script.Limit, "source", "%d bytes are more than the maximum, %d", len(code), script.MaxSourceBytes)
	}
	if at := bytes.IndexByte(code, 0); at >= 0 {
		return script.Errorf(script.Invalid, "source", "byte %d is NUL: a script is text", at+1)
	}
	if !utf8.Valid(code) {
		return script.Errorf(script.Invalid, "source", "is not valid UTF-8: a script is text")
	}
	n := nesting{levels: make([]level, 1, 16)}
	s := newScanner(string(code))
	for {
		t := s.next()
		if t.kind == tokenEnd {
			return nil
		}
		if t.kind == tokenUnfinished {
			return unfinished(t)
		}
		balanced, err := n.add(t)
		if err != nil || !balanced {
			return err // if not balanced, the parser will say so at this token
		}
	}
}

func unfinished(t token) *script.Error {
	what := "the string that begins here is not closed on its line"
	if t.bracketedText {
		what = "the long string or comment that begins here is never closed"
	}
	return at(script.Errorf(script.Script, "", "%s", what), t)
}

func at(err *script.Error, t token) *script.Error {
	err.Line, err.Column = t.line, t.column
	return err
}

// level is an open bracket or block.
type level struct {
	opener   token
	pending  int  // operators that wait for their right operand
	operand  bool // the last token ended an operand: a '-' now is binary
	closedBy string
}

// nesting follows how deep the parser is.
type nesting struct {
	levels []level
}

var closers = map[string]string{
	"(": ")", "[": "]", "{": "}",
	"function": "end", "do": "end", "if": "end", "repeat": "until",
}

// add accounts for t. It reports false if t closes what is not open.
func (n *nesting) add(t token) (balanced bool, err *script.Error) {
	top := &n.levels[len(n.levels)-1]
	if t.kind == tokenNumber || t.kind == tokenString || t.kind == tokenName {
		top.operand = true
		return true, nil
	}
	if closer, opens := closers[t.text]; opens {
		if len(n.levels) > maxNesting {
			return true, at(script.Errorf(script.Limit, "", "brackets and blocks are nested more than %d deep", maxNesting), t)
		}
		if closer == "end" || closer == "until" {
			top.pending = 0
		}
		n.levels = append(n.levels, level{opener: t, closedBy: closer})
		return true, nil
	}
	switch t.text {
	case ")", "]", "}", "end", "until":
		if len(n.levels) == 1 || top.closedBy != t.text {
			return false, nil
		}
		n.levels = n.levels[:len(n.levels)-1]
		n.levels[len(n.levels)-1].operand = true
		return true, nil
	case "nil", "true", "false", "...":
		top.operand = true
		return true, nil
	case "..", "^", "not", "#":
		top.pending++
	case "-":
		if !top.operand {
			top.pending++
		}
	case "+", "*", "/", "%", ".", ":":
	default: // a separator, a comparison, or a keyword: the operand before it is complete
		top.pending = 0
	}
	top.operand = false
	if top.pending > maxPendingOperators {
		return true, at(script.Errorf(script.Limit, "", "more than %d operators in one expression; split it", maxPendingOperators), t)
	}
	return true, nil
}

// unclosed returns the innermost opener that is still open, if any.
func (n *nesting) unclosed() (token, bool) {
	if len(n.levels) == 1 {
		return token{}, false
	}
	return n.levels[len(n.levels)-1].opener, true
}
