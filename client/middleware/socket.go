package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Socket has an agent beside the program decide, over its http.sock.
type Socket struct {
	client *http.Client
}

var _ Decider = (*Socket)(nil)

const (
	// most is longer than a script may run.
	most = 15 * time.Second
	// grace is how much longer than the deadline of a decision its answer may take.
	grace = 50 * time.Millisecond
	// idle connections are kept, one for each decision at a time.
	idle = 256
	// maxAnswer is what an agent answers at most, for a decision.
	maxAnswer = 8 << 20
)

// NewSocket returns a Decider that asks at the path of http.sock. It does not connect yet: requests have
// no decision while nobody listens there.
func NewSocket(path string) *Socket {
	path = strings.TrimPrefix(path, "unix:")
	return &Socket{client: &http.Client{
		Timeout: most,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
			MaxIdleConns: idle, MaxIdleConnsPerHost: idle, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (s *Socket) Close() { s.client.CloseIdleConnections() }

// Decide implements Decider.
func (s *Socket) Decide(ctx context.Context, rule *Rule, r *Request) (*Decision, error) {
	if rule.Timeout > 0 { // the agent keeps it, if it answers at all
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rule.Timeout+grace)
		defer cancel()
	}
	var body io.Reader
	if r.HasContent {
		body = bytes.NewReader(r.Content)
	}
	// It is a GET because net/http asks again if a connection turns out to be closed.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+rule.path(), body)
	if err != nil {
		return nil, script.Errorf(script.Invalid, "script", "%w", err)
	}
	describe(req.Header, r)
	resp, err := s.client.Do(req)
	if err != nil {
		if !canBeSent(req.Header) {
			return nil, script.Errorf(script.Invalid, "headers", "cannot be: %w", err)
		}
		return nil, script.Errorf(script.Unavailable, "agent", "does not answer: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, script.Errorf(script.Unavailable, "agent", "has not answered whole: %w", err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != decisionType {
		kind := script.Unavailable // of what is no agent
		if resp.StatusCode/100 == 4 {
			kind = script.Invalid // what a client can cause, such as 431 by many headers
		}
		return nil, script.Errorf(kind, "agent", "answers %s: %.200s", resp.Status, text)
	}
	d := &Decision{}
	if err := json.Unmarshal(text, d); err != nil || !d.Allow && d.Status == 0 {
		return nil, script.Errorf(script.Unavailable, "agent", "does not answer with a decision: %v", err)
	}
	return d, nil
}

// decisionType is the content type of a decision as JSON.
const decisionType = "application/vnd.scriptorium.decision+json"

// path is where an agent decides so.
func (r *Rule) path() string {
	settings := []string{"format=json"}
	if r.Fail != "" {
		settings = append(settings, "fail="+r.Fail)
	}
	if r.Timeout > 0 {
		settings = append(settings, "timeout="+r.Timeout.String())
	}
	if r.Key != "" {
		settings = append(settings, "key="+r.Key)
	}
	target := r.Script
	if event, tenant, ok := script.CutEvent(r.Script); ok {
		settings, target = append(settings, "event="+event), tenant
	}
	for _, name := range slices.Sorted(maps.Keys(r.Params)) {
		settings = append(settings, "param."+name+"="+r.Params[name])
	}
	return "/v1/decide/" + url.PathEscape(strings.Join(settings, ",")) + "/" + target
}

// canBeSent reports whether no header keeps a request from being sent, which a client could cause.
func canBeSent(h http.Header) bool {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return false
		}
	}
	return true
}

// notSent are headers of the client's that are for this server alone, or that say to the agent what the
// client asks for.
var notSent = []string{
	"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
	"X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url", "X-Forwarded-Method", "X-Original-Method", "X-Forwarded-Host", "X-Forwarded-Proto",
}

// describe says in headers what the client asks for.
func describe(h http.Header, r *Request) {
	for name, values := range r.Header {
		if !slices.Contains(notSent, name) {
			h[name] = slices.Clip(values)
		}
	}
	h["X-Forwarded-Method"] = []string{r.Method}
	uri := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		uri += "?" + r.URL.RawQuery
	}
	h["X-Forwarded-Uri"] = []string{uri}
	h["X-Forwarded-Host"] = []string{r.Host}
	h["X-Forwarded-Proto"] = []string{SchemeOf(r.Request)}
	h["X-Forwarded-For"] = append(h["X-Forwarded-For"], r.RemoteIP)
	if _, ok := r.Header["User-Agent"]; !ok {
		h["User-Agent"] = nil // else net/http sends its own
	}
}

// SchemeOf returns how the client reached this server.
func SchemeOf(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
