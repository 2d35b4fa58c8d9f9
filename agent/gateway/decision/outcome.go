package decision

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
)

// Response is what the upstream has answered, as its gateway describes it.
type Response struct {
	Status int // 0 if the gateway does not say it
	// Headers by name, in any case; Argument makes lower case of the names.
	Headers map[string][]string
	// Body is text, if the gateway sends it; HasBody tells an empty one from none.
	Body    []byte
	HasBody bool
}

// Argument appends the second argument of a script's on_response: an object, as
// docs/api/request.md describes it. Bytes that are not UTF-8 become U+FFFD.
func (r *Response) Argument(dst []byte) []byte {
	o := object{dst: append(slices.Grow(dst, r.ArgumentBytes()), '{')}
	if r.Status != 0 {
		o.number("status", r.Status)
	}
	o.key("headers")
	o.dst = appendHeaders(o.dst, r.Headers)
	if r.HasBody {
		o.key("body")
		o.dst = appendText(o.dst, r.Body)
	}
	return append(o.dst, '}')
}

// ArgumentBytes is how many bytes Argument needs, and at most a little more than it appends.
func (r *Response) ArgumentBytes() int {
	const rest = 64 // the names of the members, and the status
	return rest + sizeOfHeaders(r.Headers) + sizeOfText(r.Body)
}

// Outcome is what a gateway does with a response. It is valid as it is, once it Fits the response.
type Outcome struct {
	// Answer has the gateway answer with Status and Body in place of the upstream. Else the
	// response goes on, with the changes below.
	Answer bool
	Status int     // 0 leaves that of the response
	Body   *string // nil leaves that of the response

	// Headers has the changes of those that the client gets, also if Answer is true.
	Headers Changes
	// Metadata is a JSON object for the gateway's own use, or nil.
	Metadata json.RawMessage
}

// ParseOutcome makes an outcome of what on_response has returned: nil if that is nothing. It is a
// decision, of which Parse reads the same members. But the response may go on with another status and
// body, and it is too late to change the request.
func ParseOutcome(text []byte) (Outcome, error) {
	switch string(text) {
	case "", "null", "true":
		return Outcome{}, nil
	case "false":
		return Outcome{Answer: true, Status: http.StatusForbidden}, nil
	}
	if text = bytes.TrimSpace(text); !json.Valid(text) || text[0] != '{' {
		return Outcome{}, invalid("", "the result is no decision: return nothing, or a table with members such as status, body and response_headers")
	}
	var r result
	if err := members("", text, r.take); err != nil {
		return Outcome{}, err
	}
	if err := r.late(); err != nil {
		return Outcome{}, err
	}
	d := Decision{Allow: r.allow == nil || *r.allow}
	b := builder{d: &d}
	o := Outcome{}
	if d.Allow && r.redirect == nil {
		if r.status != nil {
			o.Status = *r.status
			if err := checkStatus(o.Status); err != nil {
				return Outcome{}, err
			}
		}
		o.Body = r.body
	} else {
		if err := b.verdict(&r); err != nil {
			return Outcome{}, err
		}
		o.Answer, o.Status, o.Body = true, d.Status, &d.Body
	}
	for _, step := range []func(*result) error{b.allHeaders, b.metadata} {
		if err := step(&r); err != nil {
			return Outcome{}, err
		}
	}
	o.Headers, o.Metadata = d.Response, d.Metadata
	if o.Body != nil && !o.Answer {
		o.Headers = o.Headers.unencoded()
	}
	return o, nil
}

// unencoded returns the changes for a response whose body becomes text: it is not compressed any more.
func (c Changes) unencoded() Changes {
	const name = "content-encoding"
	is := func(h Header) bool { return h.Name == name }
	if !slices.Contains(c.Remove, name) && !slices.ContainsFunc(c.Set, is) && !slices.ContainsFunc(c.Append, is) {
		c.Remove = append(c.Remove, name)
	}
	return c
}

// late returns an error if the result changes the request.
func (r *result) late() error {
	h := r.headers
	for name, there := range map[string]bool{
		"headers": len(h.set)+len(h.append)+len(h.remove) > 0, "upstream": r.upstream != nil, "path": r.path != nil, "query": r.query != nil,
	} {
		if there {
			return invalid(name, "changes the request, which is over: on_response can change status, body and response_headers")
		}
	}
	return nil
}

// Fits returns an error if HTTP has no such change of the response.
func (o *Outcome) Fits(r *Response) error {
	if o.Answer {
		return nil
	}
	changed := o.Status != 0 || o.Body != nil
	status := o.Status
	if status == 0 {
		status = r.Status
	}
	switch {
	case changed && r.Status != 0 && r.Status < 200:
		return invalid("status", "cannot be other than %d, and the response has no body", r.Status)
	case !hasBody(status) && o.Body != nil && *o.Body != "":
		return invalid("body", "goes with no status %d", status)
	case !hasBody(status) && hasBody(r.Status) && o.Status != 0:
		return invalid("status", "is %d, which has no body: answer with allow = false", status)
	}
	return nil
}

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// applied returns what the outcome makes of the response, which goes on.
func (o *Outcome) applied(r Response) Response {
	if o.Status != 0 {
		r.Status = o.Status
	}
	if o.Body != nil && r.HasBody {
		r.Body = []byte(*o.Body)
	}
	if c := o.Headers; len(c.Remove)+len(c.Set)+len(c.Append) > 0 {
		r.Headers = c.applied(lowered(r.Headers))
	}
	return r
}

// then returns what both outcomes make of a response together, of which o lets it go on. It returns an
// error if that is more than one may be. An answer holds all the same: without what came before.
func (o Outcome) then(next Outcome) (Outcome, error) {
	both := next
	both.Headers = o.Headers.after(next.Headers)
	if both.Status == 0 {
		both.Status = o.Status
	}
	if both.Body == nil {
		both.Body = o.Body
	}
	var err error
	if both.Metadata, err = merged(o.Metadata, next.Metadata); err == nil {
		err = (&Decision{Response: both.Headers, Metadata: both.Metadata}).fits()
	}
	if err != nil && next.Answer {
		return next, nil
	}
	return both, err
}

// outcomeOf returns what holds for a response in place of an outcome.
func outcomeOf(d Decision) Outcome {
	if d.Allow {
		return Outcome{Headers: d.Response}
	}
	return Outcome{Answer: true, Status: d.Status, Body: &d.Body, Headers: d.Response}
}
