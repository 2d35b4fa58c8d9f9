package httpwasm

import (
	"encoding/json"

	"github.com/http-wasm/http-wasm-host-go/api/handler"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ConfigMember is the member of a version's config that is the guest's whole configuration, if it is there. Modules of
// others want a text of their own, and no JSON.
const ConfigMember = "http_wasm"

// configText returns what get_config writes: nothing if there is no config. It pays for each member, which is copied.
func configText(config []byte, pay func(instructions int)) (string, *script.Error) {
	if len(config) == 0 {
		return "", nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(config, &members); err != nil {
		return "", script.Errorf(script.Invalid, "config", "want a JSON object: %v", err)
	}
	pay(perMember * len(members))
	own, ok := members[ConfigMember]
	switch {
	case ok:
		var text string
		if own[0] != '"' || json.Unmarshal(own, &text) != nil {
			return "", script.Errorf(script.Script, "config."+ConfigMember, "want text: the module gets it in place of the config's JSON")
		}
		return text, nil
	case len(members) == 0:
		return "", nil
	}
	return string(config), nil
}

// headers returns those of the kind; nil for trailers, which there are none of.
func (g *guest) headers(kind uint64) *headers {
	switch kind := handler.HeaderKind(uint32(kind)); kind {
	case handler.HeaderKindRequest:
		return &g.request
	case handler.HeaderKindResponse:
		return &g.response
	case handler.HeaderKindRequestTrailers, handler.HeaderKindResponseTrailers:
		return nil
	default:
		g.Failf("%s: there is no kind %d of headers: 0 is the request's, 1 the response's, 2 and 3 are trailers", g.function, kind)
	}
	return nil
}

// changeable returns the headers of the kind if they can change.
func (g *guest) changeable(kind uint64) *headers {
	h := g.headers(kind)
	switch h {
	case nil:
		g.refuse("there are no trailers: see enable_features")
	case &g.request:
		g.early("the headers of the request")
	}
	return h
}

// name reads the name of a header.
func (g *guest) name(address, length uint64) string {
	if uint32(length) == 0 {
		g.refuse("the name of a header is empty")
	}
	name := g.read(address, length, maxName)
	g.Charge(len(name) / bytesPerInstruction) // each byte is looked at, and made lower case
	return name
}

func getHeaderNames(g *guest) {
	const perName = 8 // they are sorted
	var names []string
	if h := g.headers(g.stack[0]); h != nil {
		g.Charge(perName * len(h.values))
		for name := range h.values {
			g.ChargeBytes(len(name))
		}
		names = h.names()
	}
	g.stack[0] = g.list(g.stack[1], g.stack[2], names)
}

func getHeaderValues(g *guest) {
	h, name := g.headers(g.stack[0]), g.name(g.stack[1], g.stack[2])
	var values []string
	if h != nil {
		values = h.get(name)
		g.Charge(len(values))
	}
	g.stack[0] = g.list(g.stack[3], g.stack[4], values)
}

// change is set_header_value and add_header_value.
func (g *guest) change(change func(h *headers, name, value string)) {
	h := g.changeable(g.stack[0])
	name, value := g.name(g.stack[1], g.stack[2]), g.read(g.stack[3], g.stack[4], g.most)
	g.hold(g.Call, len(name)+len(value))
	change(h, name, value)
}

func removeHeader(g *guest) {
	h := g.changeable(g.stack[0])
	name := g.name(g.stack[1], g.stack[2])
	g.hold(g.Call, len(name))
	h.remove(name)
}

// body returns the one of the kind.
func (g *guest) body(kind uint64) *body {
	switch kind := handler.BodyKind(uint32(kind)); kind {
	case handler.BodyKindRequest, handler.BodyKindResponse:
		return &g.bodies[kind]
	default:
		g.Failf("%s: there is no kind %d of bodies: 0 is the request's, 1 the response's", g.function, kind)
	}
	return nil
}

func readBody(g *guest) {
	b := g.body(g.stack[0])
	limit := uint32(g.stack[2])
	if limit == 0 {
		g.refuse("the buffer has no room")
	}
	g.Read(uint32(g.stack[1]), limit) // all of the buffer has to be there
	part := b.bytes[b.read:]
	eof := uint64(1)
	if uint64(len(part)) >= uint64(limit) { // as for any reader, its end is known once nothing comes
		part, eof = part[:limit], 0
	}
	g.ChargeBytes(len(part))
	g.Write(uint32(g.stack[1]), part)
	b.read += len(part)
	g.stack[0] = eof<<32 | uint64(len(part))
}

// writeBody replaces the body by the first text, and appends the next ones.
func writeBody(g *guest) {
	b := g.body(g.stack[0])
	if b == &g.bodies[handler.BodyKindRequest] {
		g.refuse("a decision cannot change the body of a request")
	}
	text := g.read(g.stack[1], g.stack[2], g.most)
	g.hold(g.Call, len(text))
	if !b.written {
		*b = body{written: true}
	}
	b.bytes = append(b.bytes, text...)
}
