package scriptorium

import (
	"strconv"
	"strings"
)

// A Decision says what a gateway does with a request. Make one with Allow, Deny or Redirect. Its methods
// change it and return it, so that calls can follow one another.
type Decision struct {
	denied   bool
	status   int
	body     string
	redirect string
	request  headers
	response headers
	cookies  []Cookie
	vary     []string
	limit    string
	upstream string
	path     string
	query    *string
	metadata []Member
}

// headers are changes of headers.
type headers struct {
	set, added []header
	removed    []string
}

type header struct {
	name   string
	values []string
}

// A Cookie is for the client. Fields that are not set have the defaults of Scriptorium: path /, secure,
// HTTP only, same site lax.
type Cookie struct {
	Name, Value, Path, Domain string
	MaxAge                    *int // seconds; 0 deletes the cookie
	Insecure                  bool // also over plain HTTP
	Scripts                   bool // also for scripts in the browser
	SameSite                  string
}

// Allow sends the request on. Without changes, it goes on as it is.
func Allow() *Decision { return &Decision{} }

// Deny has the gateway answer in the upstream's place.
func Deny(status int, body string) *Decision {
	return &Decision{denied: true, status: status, body: body}
}

// Redirect sends the client elsewhere, with the status 302.
func Redirect(location string) *Decision { return &Decision{redirect: location} }

// Status sets the status of the gateway's answer: of a denial, or of a redirect.
func (d *Decision) Status(status int) *Decision { d.status = status; return d }

// Upstream says where the request goes, by a name that the gateway knows.
func (d *Decision) Upstream(name string) *Decision { d.upstream = name; return d }

// Path replaces the path of the request.
func (d *Decision) Path(path string) *Decision { d.path = path; return d }

// Query replaces the query of the request.
func (d *Decision) Query(query string) *Decision { d.query = &query; return d }

// SetHeader replaces a header of the request to the upstream.
func (d *Decision) SetHeader(name string, values ...string) *Decision {
	set(&d.request.set, name, values)
	return d
}

// AppendHeader adds values to a header of the request to the upstream.
func (d *Decision) AppendHeader(name string, values ...string) *Decision {
	add(&d.request.added, name, values)
	return d
}

// RemoveHeader removes a header of the request to the upstream.
func (d *Decision) RemoveHeader(name string) *Decision {
	d.request.removed = append(d.request.removed, name)
	return d
}

// SetResponseHeader replaces a header of the response to the client.
func (d *Decision) SetResponseHeader(name string, values ...string) *Decision {
	set(&d.response.set, name, values)
	return d
}

// AppendResponseHeader adds values to a header of the response to the client.
func (d *Decision) AppendResponseHeader(name string, values ...string) *Decision {
	add(&d.response.added, name, values)
	return d
}

// RemoveResponseHeader removes a header of the response to the client.
func (d *Decision) RemoveResponseHeader(name string) *Decision {
	d.response.removed = append(d.response.removed, name)
	return d
}

// Cookie sets a cookie of the client.
func (d *Decision) Cookie(c Cookie) *Decision { d.cookies = append(d.cookies, c); return d }

// Vary names a request header that the answer depends on.
func (d *Decision) Vary(header string) *Decision { d.vary = append(d.vary, header); return d }

// RateLimit adds the headers RateLimit-Limit, -Remaining and -Reset. With the status 429 the client gets
// Retry-After, too. reset is in seconds.
func (d *Decision) RateLimit(limit, remaining, reset int) *Decision {
	d.limit = `{"limit":` + strconv.Itoa(limit) + `,"remaining":` + strconv.Itoa(remaining) + `,"reset":` + strconv.Itoa(reset) + `}`
	return d
}

// Metadata adds a text for the gateway's own use.
func (d *Decision) Metadata(name, text string) *Decision {
	return d.MetadataJSON(name, Value{Quote(text)})
}

// MetadataJSON adds a value for the gateway's own use.
func (d *Decision) MetadataJSON(name string, value Value) *Decision {
	for i := range d.metadata {
		if d.metadata[i].Name == name {
			d.metadata[i].Value = value
			return d
		}
	}
	d.metadata = append(d.metadata, Member{name, value})
	return d
}

func set(all *[]header, name string, values []string) {
	if h := find(*all, name); h != nil {
		h.values = values
		return
	}
	*all = append(*all, header{name, values})
}

func add(all *[]header, name string, values []string) {
	if h := find(*all, name); h != nil {
		h.values = append(h.values, values...)
		return
	}
	*all = append(*all, header{name, values})
}

// find returns the header with the name in any case: a decision may have each header once.
func find(all []header, name string) *header {
	for i := range all {
		if strings.EqualFold(all[i].name, name) {
			return &all[i]
		}
	}
	return nil
}

// JSON returns the decision as gateways read it.
func (d *Decision) JSON() string {
	w := object{'{'}
	if d.denied {
		w.raw("allow", "false")
	}
	if d.status != 0 {
		w.raw("status", strconv.Itoa(d.status))
	}
	w.text("body", d.body)
	w.text("redirect", d.redirect)
	w.headers("headers", d.request)
	w.headers("response_headers", d.response)
	if len(d.cookies) > 0 {
		var all []string
		for _, c := range d.cookies {
			all = append(all, c.json())
		}
		w.raw("cookies", "["+strings.Join(all, ",")+"]")
	}
	w.texts("vary", d.vary)
	if d.limit != "" {
		w.raw("rate_limit", d.limit)
	}
	w.text("upstream", d.upstream)
	w.text("path", d.path)
	if d.query != nil {
		w.raw("query", Quote(*d.query))
	}
	if len(d.metadata) > 0 {
		m := object{'{'}
		for _, member := range d.metadata {
			m.raw(member.Name, member.Value.Raw())
		}
		w.raw("metadata", m.end())
	}
	return w.end()
}

func (c Cookie) json() string {
	w := object{'{'}
	w.raw("name", Quote(c.Name))
	w.text("value", c.Value)
	w.text("path", c.Path)
	w.text("domain", c.Domain)
	if c.MaxAge != nil {
		w.raw("max_age", strconv.Itoa(*c.MaxAge))
	}
	if c.Insecure {
		w.raw("secure", "false")
	}
	if c.Scripts {
		w.raw("http_only", "false")
	}
	w.text("same_site", c.SameSite)
	return w.end()
}

// object is a JSON object that is being written.
type object []byte

func (o *object) raw(name, value string) {
	if len(*o) > 1 {
		*o = append(*o, ',')
	}
	*o = append(append(appendQuoted(*o, name), ':'), value...)
}

// text writes a text that is not empty.
func (o *object) text(name, text string) {
	if text != "" {
		o.raw(name, Quote(text))
	}
}

func (o *object) texts(name string, texts []string) {
	if len(texts) > 0 {
		o.raw(name, quoteAll(texts))
	}
}

func (o *object) headers(name string, h headers) {
	inner := object{'{'}
	for _, change := range []struct {
		name string
		all  []header
	}{{"set", h.set}, {"append", h.added}} {
		if len(change.all) == 0 {
			continue
		}
		values := object{'{'}
		for _, header := range change.all {
			if len(header.values) == 1 {
				values.raw(header.name, Quote(header.values[0]))
			} else {
				values.raw(header.name, quoteAll(header.values))
			}
		}
		inner.raw(change.name, values.end())
	}
	inner.texts("remove", h.removed)
	if len(inner) > 1 {
		o.raw(name, inner.end())
	}
}

func (o *object) end() string { return string(append(*o, '}')) }

func quoteAll(texts []string) string {
	b := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(b, text)
	}
	return string(append(b, ']'))
}
