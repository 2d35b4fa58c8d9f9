package httpsock

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// question is what the path of a request for a decision says:
//
//	/v1/decide/{tenant}/{script}               about the request that headers describe
//	/v1/decide/{tenant}/{script}/cart          about this request, for /cart
//	/v1/decide/fail=open,timeout=20ms/{tenant}/{script}
//	/v1/decide/event=pre-route/{tenant}        by the scripts of the event
//	/v1/decide/event=pre-route/{tenant}/cart
//
// Settings are in the path, since gateways let clients add to the query.
type question struct {
	decision.Question
	accel  string           // where nginx goes on if the request is allowed: "@name" or "/path"
	key    script.KeySource // of the key in a rollout whose plan names no source
	json   bool             // the answer is the decision as JSON
	params map[string]string
	path   string // of the client's request; "" if headers have it
}

func parseQuestion(req *http.Request) (*question, error) {
	// As it came: EscapedPath decodes the escapes of a path that has others to add, and %2F with them.
	rest := strings.TrimPrefix(cmp.Or(req.URL.RawPath, req.URL.EscapedPath()), decidePrefix)
	q := &question{}
	first, behind, _ := strings.Cut(rest, "/")
	if strings.Contains(first, "=") {
		settings, err := url.PathUnescape(first)
		if err != nil {
			return nil, script.Errorf(script.Invalid, "path", "has settings that cannot be read: %v", err)
		}
		if err := q.configure(settings); err != nil {
			return nil, err
		}
		rest = behind
	}
	tenant, rest, more := strings.Cut(rest, "/")
	if q.Target.Event != "" {
		q.Target.Tenant = tenant
		if more {
			q.path = "/" + rest
		}
		if err := q.Target.Validate(); err != nil {
			return nil, script.Errorf(script.Invalid, "path", "names no event of a tenant: want %sevent=NAME/{tenant}: %v", decidePrefix, err)
		}
		return q, nil
	}
	name, path, more := strings.Cut(rest, "/")
	q.Target.Script = tenant + "/" + name
	if more {
		q.path = "/" + path
	}
	if err := q.Target.Validate(); err != nil {
		return nil, script.Errorf(script.Invalid, "path", "names no script: want %s{tenant}/{script}: %v", decidePrefix, err)
	}
	return q, nil
}

func (q *question) configure(settings string) (err error) {
	for setting := range strings.SplitSeq(settings, ",") {
		name, value, _ := strings.Cut(setting, "=")
		param, isParam := strings.CutPrefix(name, "param.")
		switch {
		case name == "fail":
			if q.Fail, err = decision.ParseFail(value); err != nil {
				return err
			}
		case name == "event":
			if err = script.ValidateLabel("event", value); err != nil {
				return err
			}
			q.Target.Event = value
		case name == "timeout":
			if q.Timeout, err = time.ParseDuration(value); err != nil || q.Timeout <= 0 {
				return script.Errorf(script.Invalid, "timeout", "%.40q is not a positive duration such as 50ms", value)
			}
		case name == "accel":
			if !strings.HasPrefix(value, "@") && !strings.HasPrefix(value, "/") {
				return script.Errorf(script.Invalid, "accel", "%.80q is neither a named location such as @app nor a path", value)
			}
			q.accel = value
		case name == "format":
			if value != "json" {
				return script.Errorf(script.Invalid, "format", "is %.40q: want json", value)
			}
			q.json = true
		case name == "key":
			if q.key, err = script.ParseKeySource("key", value); err != nil {
				return err
			}
		case isParam && param != "":
			if q.params == nil {
				q.params = map[string]string{}
			}
			q.params[param] = value
		default:
			return script.Errorf(script.Invalid, "path", "%.40q is no setting: want event, fail, timeout, accel, key, format or param.NAME", name)
		}
	}
	return nil
}

// request returns the client's request, with its body.
func (q *question) request(x *exchange, w http.ResponseWriter, req *http.Request) (*decision.Request, error) {
	r := &decision.Request{Method: req.Method, Host: req.Host, Path: q.path, Query: req.URL.RawQuery, Params: q.params}
	if q.path == "" {
		if err := described(r, req.Header); err != nil {
			return nil, err
		}
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if protocol := req.Header.Get("X-Forwarded-Proto"); protocol != "" {
		r.Scheme = protocol
	}
	// The last address is the one that the gateway itself has seen.
	forwarded := req.Header.Values("X-Forwarded-For")
	if n := len(forwarded); n > 0 {
		addresses := strings.Split(forwarded[n-1], ",")
		r.RemoteAddr = strings.TrimSpace(addresses[len(addresses)-1])
	}
	r.Headers = decision.HeadersOf(req.Header)
	if err := readBody(x, w, req, r); err != nil {
		return nil, err
	}
	q.Hold = x.claim.Try
	if n := r.ArgumentBytes(); n > freeBytes && !x.claim.Try(int64(n)) {
		return nil, budget.ErrOverloaded
	}
	return r, nil
}

// described takes what the client asks for from headers. If they disagree, the client has sent some
// of them: the gateway has to remove those that it does not set.
func described(r *decision.Request, h http.Header) error {
	uri, err := onlyOne(h, decision.URIHeaders)
	if err != nil {
		return err
	}
	if uri == "" {
		return script.Errorf(script.Invalid, decision.URIHeaders[0], "is missing: the gateway has to send the client's path and query in it")
	}
	if !strings.HasPrefix(uri, "/") { // the URL that X-Original-Url has
		if uri, err = located(r, uri); err != nil {
			return err
		}
	}
	r.Path, r.Query, _ = strings.Cut(uri, "?")
	method, err := onlyOne(h, decision.MethodHeaders)
	if err != nil {
		return err
	}
	if method != "" {
		r.Method = method
	}
	if host := h.Values("X-Forwarded-Host"); len(host) == 1 {
		r.Host = host[0]
	}
	return nil
}

// located takes the scheme and the host of a URL, and returns what is behind them. Gateways put the URL
// together, and the host can be what the client says: it must not end where the gateway sees no end.
func located(r *decision.Request, uri string) (target string, err error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	host, path, more := strings.Cut(rest, "/")
	if scheme == "" || host == "" || strings.ContainsAny(scheme+host, `?#@\/`) {
		return "", script.Errorf(script.Invalid, decision.URIHeaders[0], "%.200q is neither a path nor a URL", uri)
	}
	if r.Scheme, r.Host = scheme, host; !more {
		return "/", nil
	}
	return "/" + path, nil
}

// onlyOne returns the value that the headers have, or "". All that are there have to agree.
func onlyOne(h http.Header, names []string) (value string, err error) {
	for _, name := range names {
		for _, other := range h[name] {
			if value != "" && other != value {
				return "", script.Errorf(script.Invalid, name, "and %s say different things: one is the client's own: have the gateway remove those that it does not set", names[0])
			}
			value = other
		}
	}
	return value, nil
}

// readBody reads the body of the client's request, if the gateway sends it.
func readBody(x *exchange, w http.ResponseWriter, req *http.Request, r *decision.Request) (err error) {
	if req.ContentLength == 0 {
		return nil
	}
	r.HasBody = true
	r.Body, err = x.read(nil, http.MaxBytesReader(w, req.Body, maxBody))
	return bodyError(err)
}

// bodyError says why a body did not come.
func bodyError(err error) error {
	switch {
	case err == nil, errors.Is(err, budget.ErrOverloaded):
		return err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &statusError{http.StatusRequestEntityTooLarge, script.Errorf(script.Invalid, "body", "has more than %d bytes", maxBody)}
	}
	return &script.Error{Kind: script.Invalid, Field: "body", Message: "did not come whole: it ended early, or took too long", Err: err}
}
