// Package middleware has a script decide about the requests of a Go server. A script denies a request,
// answers or redirects it, or changes its headers, path and query.
//
//	gate, err := middleware.New(middleware.NewSocket("/run/scriptorium/http.sock"), middleware.Rule{Script: "acme/gate"})
//	...
//	http.ListenAndServe(":8080", gate.Handler(app))
//
// Who decides is a Decider: an agent beside the program, over its socket, or one inside it, of package
// embed. Package interceptor does the same for gRPC servers. docs/gateways/go.md has more.
package middleware

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Decider has scripts decide about requests. It is safe for concurrent use.
type Decider interface {
	// Decide returns what becomes of the request. If the script fails, that is what the rule and the
	// script say of this case. An error says that there is no decision at all: the request is
	// malformed (its kind is Invalid), or nobody answers.
	Decide(ctx context.Context, rule *Rule, r *Request) (*Decision, error)
}

// Rule says which script decides, and how.
type Rule struct {
	// Script is "tenant/name", or "tenant/name@7" for one version, or "event=NAME/TENANT" for the scripts
	// of the tenant that run on the event.
	Script string
	// Fail says what becomes of a request without a decision. "closed" denies it, and "open" lets it
	// go on. With "" the script's onError says so, and the request is denied if nobody answers.
	Fail string
	// Timeout bounds a decision, besides the script's own limit; 0 for no other bound.
	Timeout time.Duration
	// Params are what the script reads as request.params.
	Params map[string]string
	// Body is how many bytes of a body the script sees. A request with a longer one is denied with
	// 413. With 0 the script sees no body.
	Body int64
	// Key is the part of a request that is its key in a rollout by key, such as
	// "request.cookies.user", unless the plan of the rollout names one.
	Key string
	// EncodedSlashes lets a path have %2F or %5C in it. Such a request is denied with 400 otherwise: the
	// script sees the escape, and http.Request.URL.Path has the character itself.
	EncodedSlashes bool
}

// The values of Rule.Fail.
const (
	FailClosed = "closed"
	FailOpen   = "open"
)

// maxBody is what a script may see of a body at most, as over an agent's socket.
const maxBody = 1 << 20

// Validate returns an Invalid error that names the field that cannot be.
func (r *Rule) Validate() error {
	if err := validateTarget(r.Script); err != nil {
		return script.Errorf(script.Invalid, "script", "%w", err)
	}
	if r.Key != "" {
		if _, err := script.ParseKeySource("key", r.Key); err != nil {
			return err
		}
	}
	switch {
	case strings.Contains(r.Key, ","): // which separates settings over a socket
		return script.Errorf(script.Invalid, "key", "%.80q cannot be: its name has a comma", r.Key)
	case r.Fail != "" && r.Fail != FailClosed && r.Fail != FailOpen:
		return script.Errorf(script.Invalid, "fail", "is %.20q: want %s or %s", r.Fail, FailClosed, FailOpen)
	case r.Timeout < 0:
		return script.Errorf(script.Invalid, "timeout", "is %v: want a positive duration", r.Timeout)
	case r.Body < 0 || r.Body > maxBody:
		return script.Errorf(script.Invalid, "body", "is %d bytes: want 0 to %d", r.Body, maxBody)
	}
	for name, value := range r.Params {
		if name == "" || strings.ContainsAny(name, "=,") || strings.Contains(value, ",") {
			return script.Errorf(script.Invalid, "params", "%.80q cannot be: names have no = or comma, and values no comma", name+"="+value)
		}
	}
	return nil
}

func validateTarget(text string) error {
	event, tenant, ok := script.CutEvent(text)
	if !ok {
		_, err := script.ParseRef(text)
		return err
	}
	if err := script.ValidateLabel("event", event); err != nil {
		return err
	}
	return script.ValidateLabel("tenant", tenant)
}

// Request is a client's request, as a script gets to know it.
type Request struct {
	*http.Request
	// Content is the body, if HasContent.
	Content    []byte
	HasContent bool
	// RemoteIP is the client's address without a port.
	RemoteIP string
}

// Gate applies a rule to requests. It is safe for concurrent use.
type Gate struct {
	decider Decider
	rule    Rule
	log     *slog.Logger
}

// New returns a Gate. Its errors are those of Rule.Validate.
func New(decider Decider, rule Rule) (*Gate, error) {
	if err := rule.Validate(); err != nil {
		return nil, err
	}
	return &Gate{decider: decider, rule: rule, log: slog.Default()}, nil
}

// Handler returns a handler that has the script decide before next serves a request. FromContext
// returns the decision to next.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		d := g.Decide(w, r, host)
		if !d.Allow {
			d.Answer(w)
			return
		}
		after, w, finish := d.apply(w, r)
		defer finish()
		next.ServeHTTP(w, after)
	})
}

// Decide returns the decision about a request of the client with that IP address. It is what holds
// without one if there is none. The request keeps its body, and loses the headers that only agents send.
func (g *Gate) Decide(w http.ResponseWriter, r *http.Request, remoteIP string) *Decision {
	DropOwn(r.Header)
	d, err := g.decide(w, r, remoteIP)
	if err != nil {
		g.log.Debug("a request gets no decision", "script", g.rule.Script, "error", err)
		return g.rule.Without(err)
	}
	return d
}

func (g *Gate) decide(w http.ResponseWriter, r *http.Request, remoteIP string) (*Decision, error) {
	if !g.rule.EncodedSlashes && hasEncodedSlash(r.URL.EscapedPath()) {
		return nil, script.Errorf(script.Invalid, "path", "has %%2F or %%5C in it, which servers read differently")
	}
	if strings.Contains(r.RequestURI, "#") || strings.Contains(r.URL.RawQuery, "#") {
		return nil, script.Errorf(script.Invalid, "uri", "has a # in it, which servers read differently")
	}
	req := &Request{Request: r, RemoteIP: remoteIP}
	if g.rule.Body > 0 && r.Body != nil && r.ContentLength != 0 {
		if err := g.read(w, req); err != nil {
			return nil, err
		}
	}
	return g.decider.Decide(r.Context(), &g.rule, req)
}

// Without returns what holds in place of a decision if nobody answers, or if the request is malformed.
func (r *Rule) Without(err error) *Decision {
	e := script.AsError(err)
	d := &Decision{Status: http.StatusServiceUnavailable, Body: "no decision\n", Reason: string(e.Kind)}
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		d.Status, d.Body = http.StatusRequestEntityTooLarge, "the body is too large\n"
	case e.Kind == script.Invalid:
		d.Status, d.Body = http.StatusBadRequest, e.Error()+"\n"
	case r.Fail == FailOpen:
		d = &Decision{Allow: true, Reason: string(e.Kind)}
	}
	d.Response.Set = []Header{{reasonHeader, d.Reason}}
	return d
}

// read reads the body, and puts it back.
func (g *Gate) read(w http.ResponseWriter, r *Request) error {
	body := r.Body
	content, err := io.ReadAll(http.MaxBytesReader(w, body, g.rule.Body))
	if err != nil {
		return &script.Error{Kind: script.Invalid, Field: "body", Message: "is too large, or did not come whole", Err: err}
	}
	r.Content, r.HasContent = content, true
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(content), body}
	return nil
}

func hasEncodedSlash(path string) bool {
	for {
		i := strings.IndexByte(path, '%')
		if i < 0 || i+2 >= len(path) {
			return false
		}
		switch strings.ToLower(path[i+1 : i+3]) {
		case "2f", "5c":
			return true
		}
		path = path[i+3:]
	}
}

// ownPrefix begins the names of headers that only agents send.
const ownPrefix = "scriptorium-"

// DropOwn removes headers that only agents send. A server behind this one may take them for an agent's,
// also those with an underscore.
func DropOwn(h http.Header) {
	for name := range h {
		if len(name) >= len(ownPrefix) && strings.EqualFold(strings.ReplaceAll(name[:len(ownPrefix)], "_", "-"), ownPrefix) {
			delete(h, name)
		}
	}
}
