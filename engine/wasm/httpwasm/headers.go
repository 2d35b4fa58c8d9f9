package httpwasm

import (
	"maps"
	"slices"
	"strings"
)

// headers are those of a message, by name in lower case, with what the guest has changed.
type headers struct {
	values map[string][]string
	// base is what there was. It is nil if that is not known yet: for a response before there is one.
	base map[string][]string
	// replaced has the names that the guest has changed. The value is false if it has only added to them.
	replaced map[string]bool
}

func newHeaders(base map[string][]string) headers {
	h := headers{values: map[string][]string{}, base: base, replaced: map[string]bool{}}
	maps.Copy(h.values, base)
	return h
}

// lower makes lower case of ASCII letters. Others stay: some have an ASCII letter as their lower case.
func lower(name string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, name)
}

func (h *headers) names() []string { return slices.Sorted(maps.Keys(h.values)) }

func (h *headers) get(name string) []string { return h.values[lower(name)] }

func (h *headers) set(name, value string) {
	name = lower(name)
	h.values[name], h.replaced[name] = []string{value}, true
}

func (h *headers) add(name, value string) {
	name = lower(name)
	values := h.values[name]
	if _, own := h.replaced[name]; !own { // the list is the base's
		values, h.replaced[name] = slices.Clip(values), false
	}
	h.values[name] = append(values, value)
}

func (h *headers) remove(name string) {
	name = lower(name)
	delete(h.values, name)
	h.replaced[name] = true
}

// changes are those of a decision.
type changes struct {
	Set    map[string][]string `json:"set,omitempty"`
	Append map[string][]string `json:"append,omitempty"`
	Remove []string            `json:"remove,omitempty"`
}

// changes returns what makes the guest's headers of those that there were; nil if they are the same. It leaves out
// content-length: gateways say how long a body is.
func (h *headers) changes() *changes {
	c := changes{Set: map[string][]string{}, Append: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(h.replaced)) {
		values, before := h.values[name], h.base[name]
		switch {
		case name == "content-length":
		case len(values) == 0 && h.base != nil: // gateways need not send all that there are
			c.Remove = append(c.Remove, name)
		case slices.Equal(values, before):
		case h.replaced[name] || len(before) > 0:
			c.Set[name] = values
		default:
			c.Append[name] = values
		}
	}
	if len(c.Set)+len(c.Append)+len(c.Remove) == 0 {
		return nil
	}
	return &c
}
