package jsonvalue

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Difference is a part that two values do not have in common.
type Difference struct {
	Pointer  string          // JSON pointer (RFC 6901) to the part; "" is the whole
	From, To json.RawMessage // nil: that value has no such part
}

// Differences returns at most so many parts that differ, in the order of their pointers; more
// says that there are others. Both are values as Decode returns them.
func Differences(from, to any, most int) (parts []Difference, more bool) {
	c := comparison{most: most}
	c.compare("", from, to)
	return c.parts, c.more
}

type comparison struct {
	parts []Difference
	most  int
	more  bool
}

func (c *comparison) compare(pointer string, from, to any) {
	if c.more {
		return
	}
	switch f := from.(type) {
	case map[string]any:
		if t, ok := to.(map[string]any); ok {
			c.compareObjects(pointer, f, t)
			return
		}
	case []any:
		if t, ok := to.([]any); ok {
			c.compareArrays(pointer, f, t)
			return
		}
	case json.Number:
		if t, ok := to.(json.Number); ok && SameNumber(f, t) {
			return
		}
	default: // null, a boolean or text; an object or an array does not equal one
		switch to.(type) {
		case map[string]any, []any, json.Number:
		default:
			if from == to {
				return
			}
		}
	}
	c.add(Difference{Pointer: pointer, From: encode(from), To: encode(to)})
}

func (c *comparison) add(d Difference) {
	if c.more = len(c.parts) >= c.most; !c.more {
		c.parts = append(c.parts, d)
	}
}

func (c *comparison) compareObjects(pointer string, from, to map[string]any) {
	names := slices.Sorted(maps.Keys(from))
	for name := range to {
		if _, ok := from[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := pointer + "/" + pointerEscapes.Replace(name)
		f, inFrom := from[name]
		t, inTo := to[name]
		switch {
		case !inFrom:
			c.add(Difference{Pointer: at, To: encode(t)})
		case !inTo:
			c.add(Difference{Pointer: at, From: encode(f)})
		default:
			c.compare(at, f, t)
		}
	}
}

func (c *comparison) compareArrays(pointer string, from, to []any) {
	for i := range max(len(from), len(to)) {
		at := pointer + "/" + strconv.Itoa(i)
		switch {
		case i >= len(from):
			c.add(Difference{Pointer: at, To: encode(to[i])})
		case i >= len(to):
			c.add(Difference{Pointer: at, From: encode(from[i])})
		default:
			c.compare(at, from[i], to[i])
		}
		if c.more {
			return
		}
	}
}
