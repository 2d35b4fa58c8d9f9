package decision

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// ParseRequest reads the request that a caller writes as JSON. Its errors are Invalid, and name
// the member.
func ParseRequest(text []byte) (*Request, error) {
	if text = bytes.TrimSpace(text); !json.Valid(text) || text[0] != '{' {
		return nil, invalid("", "the argument is no request: send a JSON object with members such as uri, method and headers")
	}
	r := &Request{Headers: map[string][]string{}, Params: map[string]string{}}
	if err := members("", text, r.member); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(r.Path, "/") {
		return nil, invalid("uri", "is %.80q: want what the client asks for, with its query, such as /cart?id=7", r.Path)
	}
	return r, r.Validate()
}

// member takes a member of a request as JSON.
func (r *Request) member(name string, value []byte) (err error) {
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

// document is a decision as a caller reads it in JSON. docs/gateways/README.md has its members.
type document struct {
	Allow           bool            `json:"allow"`
	Status          int             `json:"status,omitempty"`
	Body            string          `json:"body,omitempty"`
	Headers         steps           `json:"headers"`
	ResponseHeaders steps           `json:"response_headers"`
	Upstream        string          `json:"upstream,omitempty"`
	Path            *string         `json:"path,omitempty"`
	Query           *string         `json:"query,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
	Version         uint64          `json:"version,omitempty"`
	Chain           string          `json:"chain,omitempty"`
	Reason          script.Kind     `json:"reason,omitempty"`
}

// steps are changes of headers.
type steps struct {
	Remove []string    `json:"remove,omitempty"`
	Set    [][2]string `json:"set,omitempty"`
	Append [][2]string `json:"append,omitempty"`
}

func stepsOf(c Changes) steps {
	pairs := func(list []Header) (pairs [][2]string) {
		for _, h := range list {
			pairs = append(pairs, [2]string{h.Name, h.Value})
		}
		return pairs
	}
	return steps{Remove: c.Remove, Set: pairs(c.Set), Append: pairs(c.Append)}
}

// Document returns the decision as a JSON object, which has all of it. Err is what kept a script from
// deciding, or nil.
func (run *Run) Document(d *Decision, err error) ([]byte, error) {
	m := document{
		Allow: d.Allow, Status: d.Status, Body: d.Body, Headers: stepsOf(d.Request), ResponseHeaders: stepsOf(d.Response),
		Upstream: d.Upstream, Path: d.Path, Query: d.Query, Metadata: d.Metadata, Version: run.Version(), Chain: run.Chain(),
	}
	if err != nil {
		m.Reason = script.KindOf(err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, script.Errorf(script.Internal, "", "the decision cannot be encoded: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
