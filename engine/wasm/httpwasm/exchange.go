package httpwasm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine/wasm/sandbox"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Exchange is a request and, with late, the response to it, while the guest handles them. It belongs to one call.
type Exchange struct {
	method, uri, source string
	request, response   headers
	bodies              [2]body // by the ABI's kinds
	path, query         *string // that the guest has set
	status              int     // of the response; 0 if nobody has said it

	late     bool // the call is about the response
	after    bool // handle_request has ended
	upstream message
	next     bool

	held int // bytes that the guest has set
	most int // may be held
}

// body is one that the guest reads piece by piece, and may replace.
type body struct {
	bytes   []byte
	read    int
	written bool
}

// message is what requests and responses have in common in arguments.
type message struct {
	Method     string          `json:"method"`
	Host       string          `json:"host"`
	Path       string          `json:"path"`
	Query      string          `json:"query"`
	RemoteAddr string          `json:"remote_addr"`
	Status     int             `json:"status"`
	Headers    json.RawMessage `json:"headers"`
	Body       string          `json:"body"`

	headers map[string][]string
}

// New reads the arguments of a call, each a JSON value, which it charges for. Its errors are Invalid.
func New(c *sandbox.Call) (*Exchange, error) {
	inv, want := c.Inv, 1
	if inv.OnResponse {
		want = 2
	}
	if len(inv.Args) != want {
		return nil, script.Errorf(script.Invalid, "args", "an http-wasm module takes the request as its one argument, and the response as a second one if there is one, not %d arguments", len(inv.Args))
	}
	x := &Exchange{late: inv.OnResponse}
	var q message
	if err := q.read(c, "args[0]", inv.Args[0]); err != nil {
		return nil, err
	}
	if x.late {
		if err := x.upstream.read(c, "args[1]", inv.Args[1]); err != nil {
			return nil, err
		}
	}
	x.method, x.source = q.Method, sourceOf(q.RemoteAddr)
	x.uri = uriOf(q.Path, q.Query, false)
	if q.Host != "" && len(q.headers["host"]) == 0 {
		q.headers["host"] = []string{q.Host}
	}
	x.request, x.response = newHeaders(q.headers), newHeaders(nil)
	x.bodies[0].bytes = []byte(q.Body)
	return x, nil
}

const (
	// bytesPerInstruction is how many bytes of JSON are read for one instruction.
	bytesPerInstruction = 4
	// perMember is what a value in JSON costs besides its bytes.
	perMember = 20
)

func uriOf(path, query string, forced bool) string {
	if path == "" {
		path = "/"
	}
	if query != "" || forced {
		return path + "?" + query
	}
	return path
}

// sourceOf returns an address with a port, as the ABI wants one. Gateways do not tell the port.
func sourceOf(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), "0")
}

func (m *message) read(c *sandbox.Call, field string, arg []byte) error {
	c.Charge(1 + len(arg)/bytesPerInstruction)
	c.Hold(2 * len(arg)) // its texts, and their bytes
	if arg = bytes.TrimSpace(arg); len(arg) == 0 || arg[0] != '{' {
		return script.Errorf(script.Invalid, field, "an http-wasm module takes an object with members such as method, path and headers")
	}
	if err := json.Unmarshal(arg, m); err != nil {
		return script.Errorf(script.Invalid, field, "an http-wasm module takes HTTP messages, and this is none: %v", err)
	}
	m.headers = map[string][]string{}
	if len(m.Headers) == 0 || string(m.Headers) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(m.Headers))
	if begin, _ := d.Token(); begin != json.Delim('{') {
		return script.Errorf(script.Invalid, field+".headers", "want an object")
	}
	for d.More() {
		name, _ := text(c, d)
		values, ok := texts(c, d)
		if !ok || strings.IndexByte(name, 0) >= 0 {
			return script.Errorf(script.Invalid, field+".headers", "%.80q: want text or a list of texts, without the byte 0", name)
		}
		if len(values) > 0 {
			name = lower(name)
			m.headers[name] = append(m.headers[name], values...)
		}
	}
	return nil
}

// member charges for a value before it is read: there may be many.
func member(c *sandbox.Call) {
	const held = 64 // besides its bytes
	c.Charge(perMember)
	c.Hold(held)
}

// text reads a text that is the next token.
func text(c *sandbox.Call, d *json.Decoder) (text string, ok bool) {
	member(c)
	token, _ := d.Token()
	text, ok = token.(string)
	return text, ok
}

// texts reads the values of a header. The ABI ends each with the byte 0, so that none may have one.
func texts(c *sandbox.Call, d *json.Decoder) (values []string, ok bool) {
	member(c)
	switch token, _ := d.Token(); token := token.(type) {
	case string:
		values = []string{token}
	case json.Delim:
		for token == '[' && d.More() {
			value, ok := text(c, d)
			if !ok {
				return nil, false
			}
			values = append(values, value)
		}
		if end, _ := d.Token(); end != json.Delim(']') {
			return nil, false
		}
	default:
		return nil, false
	}
	return values, !slices.ContainsFunc(values, func(v string) bool { return strings.IndexByte(v, 0) >= 0 })
}

// Rehearsing says that the guest handles the request only for what it keeps for the response: it has done so before, in
// another call.
func (x *Exchange) Rehearsing() bool { return x.late && !x.after }

// answered takes the response of the upstream. What the guest made of one before has been decided by then.
func (x *Exchange) answered() {
	x.after = true
	x.response = newHeaders(x.upstream.headers)
	x.status = x.upstream.Status
	x.bodies[1] = body{bytes: []byte(x.upstream.Body)}
	x.held = 0
}

// setURI takes a URI as net/http does.
func (x *Exchange) setURI(text string) error {
	if text == "" {
		text = "/"
	}
	u, err := url.ParseRequestURI(text)
	if err != nil { // which repeats all of the text
		return fmt.Errorf("parse %.80q: %.200s", text, errors.Unwrap(err).Error())
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	x.path, x.query = &path, &u.RawQuery
	x.uri = uriOf(path, u.RawQuery, u.ForceQuery)
	return nil
}

// decision is the result of a call. docs/api/request.md describes it.
type decision struct {
	Allow           bool     `json:"allow"`
	Status          int      `json:"status,omitempty"`
	Body            *string  `json:"body,omitempty"`
	Headers         *changes `json:"headers,omitempty"`
	ResponseHeaders *changes `json:"response_headers,omitempty"`
	Path            *string  `json:"path,omitempty"`
	Query           *string  `json:"query,omitempty"`
}

// Decision returns what the guest has decided, as JSON.
func (x *Exchange) Decision() ([]byte, error) {
	d := decision{Allow: x.late || x.next, ResponseHeaders: x.response.changes()}
	switch {
	case x.late:
		if x.status != x.upstream.Status {
			d.Status = x.status
		}
		d.Body = x.bodies[1].replacement()
	case x.next && (x.status != 0 || x.bodies[1].written):
		return nil, script.Errorf(script.Script, "", "the module has set the status or the body of a response, and lets the request go on: to answer it, %s returns 0", HandleRequest)
	case x.next:
		d.Headers, d.Path, d.Query = x.request.changes(), x.path, x.query
	default:
		if d.Status = x.status; d.Status == 0 {
			d.Status = http.StatusOK
		}
		d.Body = x.bodies[1].replacement()
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, script.Errorf(script.Internal, "", "the decision cannot be encoded: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// replacement returns what the guest has written; nil if nothing.
func (b *body) replacement() *string {
	if !b.written {
		return nil
	}
	return new(string(b.bytes))
}
