package decision

import (
	"bytes"
	"encoding/json"
	"strings"
)

// requestDocument is a request as a caller writes it in JSON.
type requestDocument struct {
	Method            string             `json:"method"`
	Scheme            string             `json:"scheme"`
	Host              string             `json:"host"`
	URI               string             `json:"uri"`
	Headers           values             `json:"headers"`
	RemoteAddr        string             `json:"remote_addr"`
	Body              *string            `json:"body"`
	ClientCertificate string             `json:"client_certificate"`
	Route             string             `json:"route"`
	Params            map[string]textual `json:"params"`
}

// ParseRequest reads the request that a caller writes as JSON. Its errors are Invalid, and name
// the member.
func ParseRequest(text []byte) (*Request, error) {
	var m requestDocument
	if err := members(text, &m); err != nil {
		return nil, decodeError(err, "the argument is no request: %v: send a JSON object with members such as uri, method and headers")
	}
	if !strings.HasPrefix(m.URI, "/") {
		return nil, invalid("uri", "is %.80q: want what the client asks for, with its query, such as /cart?id=7", m.URI)
	}
	r := &Request{
		Method: m.Method, Scheme: m.Scheme, Host: m.Host, Headers: make(map[string][]string, len(m.Headers)), RemoteAddr: m.RemoteAddr,
		ClientCertificate: m.ClientCertificate, Route: m.Route, Params: make(map[string]string, len(m.Params)),
	}
	r.Path, r.Query, _ = strings.Cut(m.URI, "?")
	for name, list := range m.Headers {
		r.Headers[name] = list
	}
	for name, value := range m.Params {
		r.Params[name] = string(value)
	}
	if m.Body != nil {
		r.Body, r.HasBody = []byte(*m.Body), true
	}
	return r, nil
}

// document is a decision as a caller reads it in JSON.
type document struct {
	Allow           bool            `json:"allow"`
	Version         uint64          `json:"version,omitempty"`
	Status          int             `json:"status,omitempty"`
	Body            string          `json:"body,omitempty"`
	Headers         [][]string      `json:"headers,omitempty"`
	ResponseHeaders [][]string      `json:"response_headers,omitempty"`
	Upstream        string          `json:"upstream,omitempty"`
	Path            *string         `json:"path,omitempty"`
	Query           *string         `json:"query,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
}

// JSON returns the decision of the version as a JSON object. Changes of headers are lists of steps, in the
// order in which a gateway takes them: ["remove", name], ["set", name, value], ["append", name, value].
func (d *Decision) JSON(version uint64) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(document{
		Allow: d.Allow, Version: version, Status: d.Status, Body: d.Body, Headers: d.Request.steps(), ResponseHeaders: d.Response.steps(),
		Upstream: d.Upstream, Path: d.Path, Query: d.Query, Metadata: d.Metadata,
	})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// steps lists the changes so that a gateway takes one after the other. Of several values that are set
// under one name, the second one and those after it are appended.
func (c Changes) steps() [][]string {
	var steps [][]string
	for _, name := range c.Remove {
		steps = append(steps, []string{"remove", name})
	}
	set := map[string]bool{}
	for _, h := range c.Set {
		op := "set"
		if set[h.Name] {
			op = "append"
		}
		set[h.Name] = true
		steps = append(steps, []string{op, h.Name, h.Value})
	}
	for _, h := range c.Append {
		steps = append(steps, []string{"append", h.Name, h.Value})
	}
	return steps
}
