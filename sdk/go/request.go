package scriptorium

import "strings"

// A Request is an HTTP request, as a gateway describes it. A field that the gateway does not send is "".
type Request struct {
	Method            string // such as GET
	Scheme            string // such as https
	Host              string
	Path              string // without the query, and clean: no // and no ..
	RawPath           string // as the client sent it, if Path differs
	Query             string // what follows the ?, unchanged
	RemoteAddr        string // the client's IP address
	Body              string
	ClientCertificate string // the subject of the client's certificate
	Route             string // the gateway's name for the route
	Tenant            string // the tenant of the script

	// JSON is the whole request, with params and whatever else a caller sends.
	JSON Value

	headers Value
}

func newRequest(text string) *Request {
	v := trusted(text)
	r := &Request{JSON: v}
	v.each('{', func(name string, value Value) {
		switch name {
		case "method":
			r.Method = value.Text()
		case "scheme":
			r.Scheme = value.Text()
		case "host":
			r.Host = value.Text()
		case "path":
			r.Path = value.Text()
		case "raw_path":
			r.RawPath = value.Text()
		case "query":
			r.Query = value.Text()
		case "headers":
			r.headers = value
		case "remote_addr":
			r.RemoteAddr = value.Text()
		case "body":
			r.Body = value.Text()
		case "client_certificate":
			r.ClientCertificate = value.Text()
		case "route":
			r.Route = value.Text()
		case "tenant":
			r.Tenant = value.Text()
		}
	})
	return r
}

// Header returns a header, the first one if it came more than once, and "" if there is none. The case of
// the name does not matter.
func (r *Request) Header(name string) string {
	if values := r.HeaderValues(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// HeaderValues returns all values of a header.
func (r *Request) HeaderValues(name string) []string {
	return r.headers.Get(strings.ToLower(name)).Texts()
}

// Headers returns all headers, by names in lower case.
func (r *Request) Headers() []Member { return r.headers.Members() }

// Cookie returns a cookie of the request, the first one of that name, and "" if there is none.
func (r *Request) Cookie(name string) string {
	for _, header := range r.HeaderValues("cookie") {
		for header != "" {
			var pair string
			pair, header, _ = strings.Cut(header, ";")
			if n, value, ok := strings.Cut(pair, "="); ok && strings.Trim(n, " \t") == name {
				return strings.TrimSuffix(strings.TrimPrefix(strings.Trim(value, " \t"), `"`), `"`)
			}
		}
	}
	return ""
}

// QueryParam returns a parameter of the query, the first one of that name, and "" if there is none.
func (r *Request) QueryParam(name string) string {
	for query := r.Query; query != ""; {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if n, value, _ := strings.Cut(pair, "="); unescape(n) == name {
			return unescape(value)
		}
	}
	return ""
}

// unescape decodes + and %20. What is no escape stays.
func unescape(s string) string {
	if !strings.ContainsAny(s, "+%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b = append(b, ' ')
		case s[i] == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			b = append(b, byte(hexDigit(s[i+1])<<4|hexDigit(s[i+2])))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
