package decision

import (
	"bytes"
	"encoding/json"
	"strings"
)

// ParseRequest reads the request that a caller writes as JSON. Its errors are Invalid, and name
// the member.
func ParseRequest(text []byte) (*Request, error) {
	if text = bytes.TrimSpace(text); !json.Valid(text) || text[0] != '{' {
		return nil, invalid("", "the argument is no request: send a JSON object with members such as uri, method and headers")
	}
	r := &Request{Headers: map[string][]string{}, Params: map[string]string{}}
	if err := members("", text, r.take); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.Path, "/") {
		return nil, invalid("uri", "is %.80q: want what the client asks for, with its query, such as /cart?id=7", r.Path)
	}
	return r, nil
}

// take takes a member of a request.
func (r *Request) take(name string, value []byte) (err error) {
	switch name {
	case "uri":
		var uri string
		uri, err = readText(name, value)
		r.Path, r.Query, _ = strings.Cut(uri, "?")
	case "method":
		r.Method, err = readText(name, value)
	case "scheme":
		r.Scheme, err = readText(name, value)
	case "host":
		r.Host, err = readText(name, value)
	case "remote_addr":
		r.RemoteAddr, err = readText(name, value)
	case "client_certificate":
		r.ClientCertificate, err = readText(name, value)
	case "route":
		r.Route, err = readText(name, value)
	case "body":
		var body string
		body, err = readText(name, value)
		r.Body, r.HasBody = []byte(body), true
	case "headers":
		var headers []Header
		headers, err = readHeaders(name, value)
		for _, h := range headers {
			r.Headers[h.Name] = append(r.Headers[h.Name], h.Value)
		}
	case "params":
		var params []Header
		params, err = readHeaders(name, value)
		for _, p := range params {
			r.Params[p.Name] = p.Value
		}
	default:
		err = unknown(name)
	}
	return err
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
