package httpwasm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/scriptorium-dev/scriptorium/engine"
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

	cost int // instructions for reading the arguments
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
	Method     string                     `json:"method"`
	Host       string                     `json:"host"`
	Path       string                     `json:"path"`
	Query      string                     `json:"query"`
	RemoteAddr string                     `json:"remote_addr"`
	Status     int                        `json:"status"`
	Headers    map[string]json.RawMessage `json:"headers"`
	Body       string                     `json:"body"`

	headers map[string][]string
}

// New reads the arguments of a call, each a JSON value. Its errors are Invalid.
func New(inv *engine.Invocation) (*Exchange, error) {
	want := 1
	if inv.OnResponse {
		want = 2
	}
	if len(inv.Args) != want {
		return nil, script.Errorf(script.Invalid, "args", "an http-wasm module takes the request as its one argument, and the response as a second one if there is one, not %d arguments", len(inv.Args))
	}
	x := &Exchange{late: inv.OnResponse}
	var q message
	if err := q.read("args[0]", inv.Args[0]); err != nil {
		return nil, err
	}
	if x.late {
		if err := x.upstream.read("args[1]", inv.Args[1]); err != nil {
			return nil, err
		}
	}
	for _, arg := range inv.Args {
		x.cost += 1 + len(arg)/bytesPerInstruction
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

// bytesPerInstruction is how many bytes of JSON are read for one instruction.
const bytesPerInstruction = 4

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

func (m *message) read(field string, arg []byte) error {
	if arg = bytes.TrimSpace(arg); len(arg) == 0 || arg[0] != '{' {
		return script.Errorf(script.Invalid, field, "an http-wasm module takes an object with members such as method, path and headers")
	}
	if err := json.Unmarshal(arg, m); err != nil {
		return script.Errorf(script.Invalid, field, "an http-wasm module takes HTTP messages, and this is none: %v", err)
	}
	m.headers = make(map[string][]string, len(m.Headers))
	for name, value := range m.Headers {
		values, ok := texts(value)
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

// texts reads the values of a header. The ABI ends each with the byte 0, so that none may have one.
func texts(value []byte) (values []string, ok bool) {
	if value[0] == '[' {
		ok = json.Unmarshal(value, &values) == nil
	} else {
		values = make([]string, 1)
		ok = value[0] == '"' && json.Unmarshal(value, &values[0]) == nil
	}
	for _, v := range values {
		ok = ok && strings.IndexByte(v, 0) < 0
	}
	return values, ok
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
