package jsonvalue

import (
	"strconv"
	"strings"
)

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

// Get returns what the JSON pointer leads to; found is false if there is no such part.
func Get(v any, pointer string) (part any, found bool) {
	for pointer != "" {
		var name string
		name, pointer = firstOf(pointer)
		switch of := v.(type) {
		case map[string]any:
			if v, found = of[name]; !found {
				return nil, false
			}
		case []any:
			i, ok := indexIn(of, name)
			if !ok {
				return nil, false
			}
			v = of[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// Set puts part in the place of what the JSON pointer leads to, and returns the value after that.
// It changes nothing, and set is false, if there is no such part.
func Set(v any, pointer string, part any) (_ any, set bool) {
	if pointer == "" {
		return part, true
	}
	name, rest := firstOf(pointer)
	switch v := v.(type) {
	case map[string]any:
		member, ok := v[name]
		if !ok {
			return v, false
		}
		v[name], set = Set(member, rest, part)
		return v, set
	case []any:
		i, ok := indexIn(v, name)
		if !ok {
			return v, false
		}
		v[i], set = Set(v[i], rest, part)
		return v, set
	}
	return v, false
}

// Delete removes what the JSON pointer leads to: a member of an object, or an element of an array,
// which the following take the place of. It returns the value after that; nothing changes if there
// is no such part, or the pointer is that of the whole.
func Delete(v any, pointer string) any {
	if pointer == "" {
		return v
	}
	name, rest := firstOf(pointer)
	switch v := v.(type) {
	case map[string]any:
		if member, ok := v[name]; ok && rest != "" {
			v[name] = Delete(member, rest)
		} else {
			delete(v, name)
		}
	case []any:
		i, ok := indexIn(v, name)
		switch {
		case !ok:
		case rest != "":
			v[i] = Delete(v[i], rest)
		default:
			return append(v[:i], v[i+1:]...)
		}
	}
	return v
}

// firstOf cuts a pointer, which is not "", behind its first name.
func firstOf(pointer string) (name, rest string) {
	name = strings.TrimPrefix(pointer, "/")
	if end := strings.IndexByte(name, '/'); end >= 0 {
		name, rest = name[:end], name[end:]
	}
	return pointerUnescapes.Replace(name), rest
}

func indexIn(v []any, name string) (int, bool) {
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && i < len(v)
}
