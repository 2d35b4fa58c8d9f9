package envoy

import (
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	// ownPrefix begins the names of our headers. A client's own ones reach neither a script nor
	// an upstream.
	ownPrefix = "scriptorium-"
	// upstreamHeader says where the request goes.
	upstreamHeader = ownPrefix + "upstream"
	pathHeader     = ":path"
	statusHeader   = ":status"
)

// line is a change of a header.
type line struct {
	name, value string
	// add keeps the values that are there; else the value replaces them.
	add bool
	// more is for an addition: the header has a value already.
	more bool
}

// changes of a head. No name is both removed and changed: ext_authz removes last, and ext_proc
// first.
type changes struct {
	remove []string
	lines  []line
}

// changesOf returns the changes that the decision makes to a head. has says which headers it has.
func changesOf(c decision.Changes, has func(name string) bool) changes {
	to := changes{remove: slices.Clone(c.Remove)}
	set := map[string]bool{}
	change := func(h decision.Header, add bool) {
		kept := slices.DeleteFunc(to.remove, func(name string) bool { return name == h.Name })
		removed := len(kept) < len(to.remove)
		to.remove = kept
		l := line{name: h.Name, value: h.Value, add: add && !removed}
		l.more = l.add && (set[h.Name] || has(h.Name))
		set[h.Name] = true
		to.lines = append(to.lines, l)
	}
	for _, h := range c.Set {
		change(h, false)
	}
	for _, h := range c.Append {
		change(h, true)
	}
	return to
}

// requestChanges returns what becomes of a request that goes on: its path and query are one
// header to Envoy.
func requestChanges(d *decision.Decision, r *request) changes {
	c := changesOf(d.Request, func(name string) bool { return len(r.Headers[name]) > 0 })
	own := append(slices.Clone(r.own), upstreamHeader) // also one that Envoy does not show us
	if d.Upstream != "" {
		own = slices.DeleteFunc(own, func(name string) bool { return name == upstreamHeader })
		c.lines = append(c.lines, line{name: upstreamHeader, value: d.Upstream})
	}
	slices.Sort(own)
	c.remove = append(c.remove, slices.Compact(own)...)
	if d.Path != nil || d.Query != nil {
		c.lines = append(c.lines, line{name: pathHeader, value: r.target(d)})
	}
	return c
}

// reroutes reports whether the decision can change the route that Envoy has chosen.
func reroutes(d *decision.Decision, r *request) bool {
	c := d.Request
	return len(c.Remove)+len(c.Set)+len(c.Append)+len(r.own) > 0 || d.Upstream != "" || d.Path != nil || d.Query != nil
}

// mostNested bounds the tables in tables of metadata: Envoy reads no message that is nested deeper
// than 100, and each table is three messages.
const mostNested = 24

// Members of the metadata that say what has run. A script cannot set them.
const (
	versionMember = "scriptorium_version"
	chainMember   = "scriptorium_chain"
)

// metadataOf returns the metadata of a decision, and what has made it; nil if there is neither.
func metadataOf(text json.RawMessage, by ran) (*structpb.Struct, error) {
	m := &structpb.Struct{}
	if text != nil {
		if nesting(text) > mostNested {
			return nil, script.Errorf(script.Invalid, "metadata", "has more than %d tables in tables, which Envoy does not read", mostNested)
		}
		if err := protojson.Unmarshal(text, m); err != nil {
			return nil, script.Errorf(script.Invalid, "metadata", "does not fit Envoy's metadata: %v", err)
		}
	}
	delete(m.Fields, versionMember)
	delete(m.Fields, chainMember)
	add := func(name string, v *structpb.Value) {
		if m.Fields == nil {
			m.Fields = map[string]*structpb.Value{}
		}
		m.Fields[name] = v
	}
	if by.version != 0 {
		add(versionMember, structpb.NewNumberValue(float64(by.version)))
	}
	if by.chain != "" {
		add(chainMember, structpb.NewStringValue(by.chain))
	}
	if m.Fields == nil {
		return nil, nil
	}
	return m, nil
}

// nesting returns how deep the JSON text is nested.
func nesting(text []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}
