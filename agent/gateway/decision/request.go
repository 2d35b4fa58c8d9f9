package decision

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Request is a client's request as its gateway describes it.
type Request struct {
	Method, Scheme, Host string
	// Path is what the client asks for, without the query, as it came.
	Path string
	// Query is what follows "?", as it came.
	Query string
	// Headers by name, in any case; Argument makes lower case of the names.
	Headers map[string][]string
	// RemoteAddr is the client's address without a port.
	RemoteAddr string
	// Body is text, if the gateway sends it; HasBody tells an empty one from none.
	Body    []byte
	HasBody bool
	// ClientCertificate is the subject of the certificate that the client presented.
	ClientCertificate string
	// Route is the name that the gateway has for the route that matched.
	Route string
	// Params are settings of the gateway for this call.
	Params map[string]string

	keys keys // of the fields above, which Key has looked at
}

// Validate returns an Invalid error if servers read the target differently. HTTP has no "#" in a target.
// nginx passes it on all the same. Some applications end the path or the query there, and others do not.
func (r *Request) Validate() error {
	if strings.Contains(r.Path, "#") || strings.Contains(r.Query, "#") {
		return invalid("uri", "has a # in it, which servers read differently")
	}
	return nil
}

// Argument appends the one argument of a script that decides about the request: an object,
// as docs/api/request.md describes it. Bytes that are not UTF-8 become U+FFFD.
func (r *Request) Argument(dst []byte, tenant string) []byte {
	o := object{dst: append(slices.Grow(dst, r.ArgumentBytes()), '{')}
	o.text("tenant", tenant)
	o.text("method", r.Method)
	o.text("scheme", r.Scheme)
	o.text("host", r.Host)
	path := script.CleanPath(r.Path)
	o.text("path", path)
	if path != r.Path {
		o.text("raw_path", r.Path)
	}
	o.text("query", r.Query)
	o.text("remote_addr", r.RemoteAddr)
	if r.ClientCertificate != "" {
		o.text("client_certificate", r.ClientCertificate)
	}
	if r.Route != "" {
		o.text("route", r.Route)
	}
	o.key("headers")
	o.dst = appendHeaders(o.dst, r.Headers)
	if r.HasBody {
		o.key("body")
		o.dst = appendText(o.dst, r.Body)
	}
	o.key("params")
	params := object{dst: append(o.dst, '{')}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		params.text(name, r.Params[name])
	}
	return append(params.dst, '}', '}')
}

// ArgumentBytes is how many bytes Argument needs, and at most a little more than it appends: as JSON, a
// byte of the client's can take six.
func (r *Request) ArgumentBytes() int {
	const rest = 512 // the names of all members, and the tenant
	n := rest + 2*sizeOfText(r.Path) + sizeOfText(r.Body)
	for _, text := range []string{r.Method, r.Scheme, r.Host, r.Query, r.RemoteAddr, r.ClientCertificate, r.Route} {
		n += sizeOfText(text)
	}
	n += sizeOfHeaders(r.Headers)
	for name, value := range r.Params {
		n += marks + sizeOfText(name) + sizeOfText(value)
	}
	return n
}

// marks are what a member of an object takes besides its texts, or an element of a list.
const marks = 6

// sizeOfHeaders returns how many bytes appendHeaders needs.
func sizeOfHeaders(headers map[string][]string) int {
	n := 0
	for name, values := range headers {
		n += marks + sizeOfText(name)*3/2 // in lower case, two bytes can be three
		for _, value := range values {
			n += marks + sizeOfText(value)
		}
	}
	return n
}

// appendHeaders appends headers as an object. The value of one that came more than once, also
// under names of another case, is a list.
func appendHeaders(dst []byte, headers map[string][]string) []byte {
	type header struct {
		lower, name string
		values      []string
	}
	var few [32]header
	all := few[:0]
	for name, values := range headers {
		if len(values) > 0 {
			all = append(all, header{lowerOf(name), name, values})
		}
	}
	slices.SortFunc(all, func(a, b header) int {
		return cmp.Or(strings.Compare(a.lower, b.lower), strings.Compare(a.name, b.name))
	})
	o := object{dst: append(dst, '{')}
	for i := 0; i < len(all); {
		first := all[i]
		o.key(first.lower)
		same := i + 1
		for same < len(all) && all[same].lower == first.lower {
			same++
		}
		if same == i+1 && len(first.values) == 1 {
			o.dst = appendText(o.dst, first.values[0])
		} else {
			mark := byte('[')
			for _, h := range all[i:same] {
				for _, value := range h.values {
					o.dst = appendText(append(o.dst, mark), value)
					mark = ','
				}
			}
			o.dst = append(o.dst, ']')
		}
		i = same
	}
	return append(o.dst, '}')
}

// lowerOf is HeaderName, and takes no memory for the headers that most requests have.
func lowerOf(name string) string {
	if lower, ok := common[name]; ok {
		return lower
	}
	return HeaderName(name)
}

// HeaderName returns the name of a header in lower case. A letter that is not ASCII stays: some of them have
// an ASCII letter as their lower case, and a client could give a header the name of another one.
func HeaderName(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return strings.Map(lowerASCII, name)
		}
	}
	return strings.ToLower(name)
}

func lowerASCII(c rune) rune {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// isNamed reports whether lower, which is ASCII, is the name of the header in lower case.
func isNamed(header, lower string) bool {
	// Only letters that take more bytes fold to ASCII letters without being their upper case.
	return len(header) == len(lower) && strings.EqualFold(header, lower)
}

// common has the headers that most requests have, as net/http writes them: their names in lower case take no
// memory of each request.
var common = func() map[string]string {
	names := map[string]string{}
	for _, lower := range []string{
		"accept", "accept-encoding", "accept-language", "authorization", "cache-control", "content-length", "content-type", "cookie", "dnt",
		"forwarded", "host", "if-modified-since", "if-none-match", "origin", "pragma", "priority", "range", "referer", "sec-ch-ua", "sec-ch-ua-mobile",
		"sec-ch-ua-platform", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user", "te", "traceparent", "tracestate",
		"upgrade-insecure-requests", "user-agent", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "x-request-id",
	} {
		names[http.CanonicalHeaderKey(lower)] = lower
	}
	return names
}()

// object appends the members of a JSON object.
type object struct {
	dst  []byte
	more bool
}

func (o *object) key(name string) {
	if o.more {
		o.dst = append(o.dst, ',')
	}
	o.more = true
	o.dst = append(appendText(o.dst, name), ':')
}

func (o *object) text(name, value string) {
	o.key(name)
	o.dst = appendText(o.dst, value)
}

func (o *object) number(name string, value int) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, int64(value), 10)
}
