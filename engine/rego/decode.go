package rego

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The bounds of values that enter and leave a policy.
const (
	maxDepth = 32
	maxNodes = 16_384
)

var (
	errNotJSON  = errors.New("not one JSON value")
	errNotUTF8  = errors.New("not UTF-8")
	errTooDeep  = fmt.Errorf("nested deeper than %d", maxDepth)
	errTooMany  = fmt.Errorf("more than %d values", maxNodes)
	errTooLarge = errors.New("a number is out of range")
)

// decoder makes values of Rego from JSON. It is stricter than encoding/json about UTF-8, depth and numbers.
type decoder struct {
	text  string
	at    int
	nodes int
	depth int
	rego  bool // sets, and keys of any type
}

// decode returns the one value that the text has. It copies the text.
func decode(text []byte, nodes int) (ast.Value, error) {
	if !utf8.Valid(text) {
		return nil, errNotUTF8
	}
	d := decoder{text: string(text), nodes: nodes, depth: maxDepth}
	v, err := d.value()
	if err != nil {
		return nil, err
	}
	if d.space(); d.at != len(d.text) {
		return nil, errNotJSON
	}
	return v, nil
}

// maxOperandDepth bounds values that pass between a module and functions of the host.
const maxOperandDepth = 128

// decodeRego is decode for values as a module writes them.
func decodeRego(text []byte) (ast.Value, error) {
	d := decoder{text: strings.ToValidUTF8(string(text), "\uFFFD"), nodes: len(text) + 1, depth: maxOperandDepth, rego: true}
	v, err := d.value()
	if err == nil && d.at != len(d.text) {
		err = errNotJSON
	}
	return v, err
}

func (d *decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (d *decoder) peek() byte {
	d.space()
	if d.at == len(d.text) {
		return 0
	}
	return d.text[d.at]
}

func (d *decoder) value() (ast.Value, error) {
	if d.nodes--; d.nodes < 0 {
		return nil, errTooMany
	}
	switch c := d.peek(); c {
	case '{', '[':
		if d.depth--; d.depth < 0 {
			return nil, errTooDeep
		}
		defer func() { d.depth++ }()
		d.at++
		if c == '{' {
			return d.object()
		}
		return d.array()
	case '"':
		s, err := d.str()
		return ast.String(s), err
	case 't':
		return ast.Boolean(true), d.word("true")
	case 'f':
		return ast.Boolean(false), d.word("false")
	case 'n':
		return ast.NullValue, d.word("null")
	case 's':
		if d.rego {
			return ast.NewSet(), d.word("set()")
		}
	}
	return d.number()
}

func (d *decoder) word(w string) error {
	if len(d.text)-d.at < len(w) || d.text[d.at:d.at+len(w)] != w {
		return errNotJSON
	}
	d.at += len(w)
	return nil
}

func (d *decoder) array() (ast.Value, error) {
	var terms []*ast.Term
	if d.peek() == ']' {
		d.at++
		return ast.NewArray(), nil
	}
	for {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		terms = append(terms, term(v))
		switch d.peek() {
		case ',':
			d.at++
		case ']':
			d.at++
			return ast.NewArray(terms...), nil
		default:
			return nil, errNotJSON
		}
	}
}

func (d *decoder) object() (ast.Value, error) {
	var members [][2]*ast.Term
	if d.peek() == '}' {
		d.at++
		return ast.NewObject(), nil
	}
	if d.rego {
		return d.braces()
	}
	for {
		if d.peek() != '"' {
			return nil, errNotJSON
		}
		key, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.peek() != ':' {
			return nil, errNotJSON
		}
		d.at++
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		members = append(members, [2]*ast.Term{ast.InternedTerm(key), term(v)})
		switch d.peek() {
		case ',':
			d.at++
		case '}':
			d.at++
			return ast.NewObject(members...), nil
		default:
			return nil, errNotJSON
		}
	}
}

// braces reads a set or an object of Rego, of which the brace was read.
func (d *decoder) braces() (ast.Value, error) {
	var members [][2]*ast.Term
	var elements []*ast.Term
	for {
		k, err := d.value()
		if err != nil {
			return nil, err
		}
		if d.peek() == ':' {
			d.at++
			v, err := d.value()
			if err != nil {
				return nil, err
			}
			members = append(members, [2]*ast.Term{term(k), term(v)})
		} else {
			elements = append(elements, term(k))
		}
		switch c := d.peek(); {
		case c == ',':
			d.at++
		case c == '}' && members == nil:
			d.at++
			return ast.NewSet(elements...), nil
		case c == '}' && elements == nil:
			d.at++
			return ast.NewObject(members...), nil
		default:
			return nil, errNotJSON
		}
	}
}

// term returns a term of the value. Those of booleans and null are shared.
func term(v ast.Value) *ast.Term {
	switch v := v.(type) {
	case ast.Boolean:
		return ast.InternedTerm(bool(v))
	case ast.Null:
		return ast.NullTerm()
	}
	return &ast.Term{Value: v}
}

// str reads a string. Most have no escapes: they stay a part of the text.
func (d *decoder) str() (string, error) {
	begin := d.at
	for i := begin + 1; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			d.at = i + 1
			return d.text[begin+1 : i], nil
		case c == '\\':
			return d.escaped(begin, i)
		case c < ' ':
			return "", errNotJSON
		}
	}
	return "", errNotJSON
}

// escaped reads a string that has its first escape at i.
func (d *decoder) escaped(begin, i int) (s string, err error) {
	for ; i < len(d.text) && d.text[i] != '"'; i++ {
		if d.text[i] == '\\' {
			i++
		}
	}
	if i >= len(d.text) {
		return "", errNotJSON
	}
	d.at = i + 1
	if json.Unmarshal([]byte(d.text[begin:d.at]), &s) != nil {
		return "", errNotJSON
	}
	return s, nil
}

// number reads a number, which keeps its digits.
func (d *decoder) number() (ast.Value, error) { //nolint:gocyclo // one branch a part of a number
	begin := d.at
	i := begin
	if i < len(d.text) && d.text[i] == '-' {
		i++
	}
	digits := func() (n int) {
		for i < len(d.text) && '0' <= d.text[i] && d.text[i] <= '9' {
			i++
			n++
		}
		return n
	}
	leading := i
	n := digits()
	if n == 0 || n > 1 && d.text[leading] == '0' {
		return nil, errNotJSON
	}
	whole := true
	if i < len(d.text) && d.text[i] == '.' {
		i++
		if whole = false; digits() == 0 {
			return nil, errNotJSON
		}
	}
	if i < len(d.text) && d.text[i]|0x20 == 'e' {
		i++
		if i < len(d.text) && (d.text[i] == '+' || d.text[i] == '-') {
			i++
		}
		if whole = false; digits() == 0 {
			return nil, errNotJSON
		}
	}
	text := d.text[begin:i]
	d.at = i
	if whole && n <= 15 {
		if shared := ast.InternedIntNumberTermFromString(text); shared != nil {
			return shared.Value, nil
		}
		return ast.Number(text), nil
	}
	return wide(text)
}

// wide returns the number of a text that is not a small integer.
func wide(text string) (ast.Value, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || len(text) > maxDigits {
		return nil, errTooLarge
	}
	return ast.Number(text), nil
}

// maxDigits bounds what arithmetic on one number costs.
const maxDigits = 64
