package httpsock

import (
	"bytes"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

const spaces = " \t\r\n" // of JSON

// wantArgs begins the error for a body that is not an object with a list of arguments.
const wantArgs = `the body must be a JSON object {"args":[…]}`

// parseArgs appends the arguments in a body {"args":[…]}, which point into it. It passes over
// them once, and does not look at whether they are JSON: the engine does, in the call's turn,
// and charges the tenant.
func parseArgs(args [][]byte, body []byte) ([][]byte, error) {
	e := envelope{in: body}
	if !e.take('{') {
		return args, e.wrong()
	}
	found := 0
	if !e.take('}') {
		if key := `"args"`; e.rest(len(key)) != key {
			return args, e.unknown()
		}
		e.at += len(`"args"`)
		if !e.take(':') {
			return args, e.wrong()
		}
		if e.space(); e.rest(len("null")) == "null" {
			e.at += len("null")
		} else if args, found = e.list(args); found < 0 {
			return args, e.wrong()
		}
		if e.take(',') {
			return args, e.unknown()
		}
		if !e.take('}') {
			return args, e.wrong()
		}
	}
	if e.space(); e.at < len(body) {
		return args, script.Errorf(script.Invalid, "body", "%s: there is something after it", wantArgs)
	}
	if found > maxArgs {
		return args, script.Errorf(script.Invalid, "args", "there are %d arguments; a call may have %d", found, maxArgs)
	}
	return args, nil
}

// envelope is a body that is being read.
type envelope struct {
	in []byte
	at int
}

func (e *envelope) wrong() error {
	if e.at >= len(e.in) {
		return script.Errorf(script.Invalid, "body", "%s: it ends too early", wantArgs)
	}
	return script.Errorf(script.Invalid, "body", "%s: it is not JSON at byte %d", wantArgs, e.at+1)
}

func (e *envelope) unknown() error {
	if e.space(); e.at >= len(e.in) {
		return e.wrong()
	}
	return script.Errorf(script.Invalid, "body", "%s and nothing beside args", wantArgs)
}

// rest returns the next n bytes, if there are so many.
func (e *envelope) rest(n int) string { return string(e.in[e.at:min(e.at+n, len(e.in))]) }

func (e *envelope) space() {
	for e.at < len(e.in) && strings.IndexByte(spaces, e.in[e.at]) >= 0 {
		e.at++
	}
}

// take steps over space and the byte, if that comes next.
func (e *envelope) take(b byte) bool {
	if e.space(); e.at == len(e.in) || e.in[e.at] != b {
		return false
	}
	e.at++
	e.space()
	return true
}

// list appends the elements of an array, the first maxArgs of them, and returns how many there
// are; less than 0 if it is none.
func (e *envelope) list(args [][]byte) (list [][]byte, found int) {
	if !e.take('[') {
		return args, -1
	}
	if e.take(']') {
		return args, 0
	}
	for {
		arg := e.element()
		if arg == nil {
			return args, -1
		}
		if found++; found <= maxArgs {
			args = append(args, arg)
		}
		if e.take(']') {
			return args, found
		}
		if !e.take(',') {
			return args, -1
		}
	}
}

// element steps over one element, and returns it; nil if none begins here, or if it does not end.
func (e *envelope) element() []byte {
	start := e.at
	if start == len(e.in) || strings.IndexByte(`{["-0123456789tfn`, e.in[start]) < 0 {
		return nil
	}
	at, in := start, e.in
	for depth := 0; at < len(in); at++ {
		switch in[at] {
		case '"':
			for at++; at < len(in) && in[at] != '"'; at++ {
				if in[at] == '\\' {
					at++
				}
			}
		case '[', '{':
			depth++
		case ']', '}', ',':
			if depth == 0 {
				e.at = at
				return bytes.TrimRight(in[start:at], spaces)
			}
			if in[at] != ',' {
				depth--
			}
		}
	}
	e.at = len(in)
	return nil
}
