package decision

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The functions here read JSON that json.Valid has passed. They are stricter than encoding/json, which
// takes members of another case, members that come twice, where the last one holds, and null for
// anything: each can undo allow = false.

// maxMembers bounds the members of an object whose names are not known.
const maxMembers = 1024

// each calls take with the name, in its quotes, and the value of each member of the object.
func each(field string, object []byte, take func(name, value []byte) error) error {
	if object[0] != '{' {
		return wrong(field, object, "a table with names")
	}
	for at := next(object, 1); object[at] != '}'; {
		end := at + skip(object[at:])
		name := object[at:end]
		at = next(object, next(object, end)+1) // behind the colon
		end = at + skip(object[at:])
		if err := take(name, object[at:end]); err != nil {
			return err
		}
		if at = next(object, end); object[at] == ',' {
			at = next(object, at+1)
		}
	}
	return nil
}

// members calls take with each member of the object. It returns an error if one comes twice, is null,
// or has a name that is not in lower case; take returns unknown for a name that it does not know.
func members(field string, object []byte, take func(name string, value []byte) error) error {
	var known [16][]byte
	seen := known[:0]
	return each(field, object, func(name, value []byte) error {
		name = name[1 : len(name)-1]
		switch {
		case len(bytes.Trim(name, "abcdefghijklmnopqrstuvwxyz_")) > 0:
			return invalid(string(name), "is unknown: the names of members are in lower case")
		case slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(other, name) }):
			return invalid(string(name), "is there twice")
		case value[0] == 'n':
			return invalid(string(name), "is null: leave it out, or give it a value")
		}
		seen = append(seen, name)
		return take(string(name), value)
	})
}

// unknown is the error for a member whose name is not known.
func unknown(name string) error { return invalid(name, "is unknown") }

// elements calls take with each element of the array. An empty table of Lua can be an empty object.
func elements(field string, array []byte, take func(value []byte) error) error {
	if array[0] == '{' && array[next(array, 1)] == '}' {
		return nil
	}
	if array[0] != '[' {
		return wrong(field, array, "a list")
	}
	for at := next(array, 1); array[at] != ']'; {
		end := at + skip(array[at:])
		if err := take(array[at:end]); err != nil {
			return err
		}
		if at = next(array, end); array[at] == ',' {
			at = next(array, at+1)
		}
	}
	return nil
}

// next returns where what is no white space begins, at or behind the place.
func next(text []byte, at int) int {
	for text[at] <= ' ' {
		at++
	}
	return at
}

// skip returns how long the value is that the text begins with.
func skip(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i // behind a number
			}
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// wrong is the error for a value of another kind than the member wants.
func wrong(field string, value []byte, want string) error {
	kind := "a number"
	switch value[0] {
	case '{':
		kind = "a table with names"
	case '[':
		kind = "a list"
	case '"':
		kind = "text"
	case 't', 'f':
		kind = "a boolean"
	case 'n':
		kind = "null"
	}
	return invalid(field, "is %s: want %s", kind, want)
}

func readText(field string, value []byte) (string, error) {
	if value[0] != '"' {
		return "", wrong(field, value, "text")
	}
	if inside := value[1 : len(value)-1]; bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside), nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err
}

// readTextual reads text, or a number as text: Lua does not tell them apart either.
func readTextual(field string, value []byte) (string, error) {
	if c := value[0]; c == '-' || c >= '0' && c <= '9' {
		return string(value), nil
	}
	return readText(field, value)
}

func readBool(field string, value []byte) (bool, error) {
	if value[0] != 't' && value[0] != 'f' {
		return false, wrong(field, value, "true or false")
	}
	return value[0] == 't', nil
}

func readInt(field string, value []byte) (int, error) {
	if n, err := strconv.Atoi(string(value)); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return 0, wrong(field, value, "a whole number")
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, invalid(field, "is %.40s: want a whole number", value)
	}
	return int(f), nil
}

// readHeaders reads values by name: text, or a list of texts. They are in the order of the names. An
// empty table of Lua can be an empty array.
func readHeaders(field string, object []byte) ([]Header, error) {
	if object[0] == '[' && object[next(object, 1)] == ']' {
		return nil, nil
	}
	var headers []Header
	names := 0
	err := each(field, object, func(raw, value []byte) error {
		if names++; names > maxMembers {
			return invalid(field, "has more than %d names", maxMembers)
		}
		name, err := readText(field, raw)
		if err != nil {
			return err
		}
		one := func(value []byte) error {
			text, err := readTextual(field, value)
			headers = append(headers, Header{name, text})
			return err
		}
		if value[0] == '[' {
			return elements(field, value, one)
		}
		return one(value)
	})
	slices.SortStableFunc(headers, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return headers, err
}

func readTexts(field string, array []byte) (texts []string, err error) {
	err = elements(field, array, func(value []byte) error {
		text, err := readText(field, value)
		texts = append(texts, text)
		return err
	})
	return texts, err
}
