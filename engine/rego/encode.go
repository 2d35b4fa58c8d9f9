package rego

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// encoder writes values of Rego as JSON. A set becomes an array, sorted.
type encoder struct {
	nodes int
	limit int  // of the length of the text
	sets  bool // writes values as Rego does, with sets and keys of any type
}

var errTooLong = errors.New("too long")

// appendResult appends the value to the results.
func appendResult(res *engine.Result, v ast.Value, most int) error {
	e := encoder{nodes: maxNodes, limit: res.Bytes() + most}
	err := res.Append(func(dst []byte) ([]byte, error) { return e.value(dst, v, maxDepth) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooLong):
		return tooLong(most)
	case errors.Is(err, errKey):
		return script.Errorf(script.Script, "", "%w", err)
	}
	return script.Errorf(script.Limit, "", "the result has values %w", err)
}

func tooLong(most int) *script.Error {
	return script.Errorf(script.Limit, "limits.resultBytes", "the result has more than %d bytes", most)
}

var errKey = errors.New("the result has an object with a key that is not text, which JSON cannot say")

func (e *encoder) value(dst []byte, v ast.Value, depth int) ([]byte, error) {
	if e.nodes--; e.nodes < 0 {
		return dst, errTooMany
	}
	var err error
	switch v := v.(type) {
	case ast.Null:
		dst = append(dst, "null"...)
	case ast.Boolean:
		if v {
			dst = append(dst, "true"...)
		} else {
			dst = append(dst, "false"...)
		}
	case ast.Number:
		dst = append(dst, short(string(v))...)
	case ast.String:
		if len(v) > e.limit {
			return dst, errTooLong
		}
		dst = appendString(dst, string(v))
	case *ast.Array:
		dst, err = e.list(dst, v.Iter, depth-1)
	case ast.Set:
		if e.sets {
			return e.set(dst, v, depth-1)
		}
		dst, err = e.list(dst, v.Sorted().Iter, depth-1)
	case ast.Object:
		dst, err = e.object(dst, v, depth-1)
	default:
		return dst, errors.New("that are not data")
	}
	if err == nil && len(dst) > e.limit {
		err = errTooLong
	}
	return dst, err
}

// short returns a number without zeros that end its fraction: 1.0 is 1.
func short(n string) string {
	if strings.IndexByte(n, '.') < 0 || n[len(n)-1] != '0' || strings.ContainsAny(n, "eE") {
		return n
	}
	return strings.TrimSuffix(strings.TrimRight(n, "0"), ".")
}

func (e *encoder) list(dst []byte, each func(func(*ast.Term) error) error, depth int) ([]byte, error) {
	if depth < 0 {
		return dst, errTooDeep
	}
	dst = append(dst, '[')
	first := true
	err := each(func(t *ast.Term) (err error) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst, err = e.value(dst, t.Value, depth)
		return err
	})
	return append(dst, ']'), err
}

// set writes a set as Rego does.
func (e *encoder) set(dst []byte, s ast.Set, depth int) ([]byte, error) {
	if s.Len() == 0 {
		return append(dst, "set()"...), nil
	}
	begin := len(dst)
	dst, err := e.list(dst, s.Sorted().Iter, depth)
	dst[begin], dst[len(dst)-1] = '{', '}'
	return dst, err
}

func (e *encoder) object(dst []byte, o ast.Object, depth int) ([]byte, error) {
	if depth < 0 {
		return dst, errTooDeep
	}
	dst = append(dst, '{')
	first := true
	err := o.Iter(func(k, v *ast.Term) (err error) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if key, ok := k.Value.(ast.String); ok {
			dst = appendString(dst, string(key))
		} else if !e.sets {
			return errKey
		} else if dst, err = e.value(dst, k.Value, depth); err != nil {
			return err
		}
		dst, err = e.value(append(dst, ':'), v.Value, depth)
		return err
	})
	return append(dst, '}'), err
}

// appendString appends a string of JSON. Most need no escapes.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendEscaped(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		default:
			quoted, _ := json.Marshal(string(c)) // \n, \t or \u00xx
			dst = append(dst, quoted[1:len(quoted)-1]...)
		}
		i++
	}
	return append(dst, '"')
}
