package middleware

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Decision is what becomes of a request. An agent has checked it.
type Decision struct {
	// Allow lets the request go on, with the changes below. Else the server answers with Status and
	// Body.
	Allow  bool   `json:"allow"`
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	// Request has the changes of the headers that the application gets, and Response of those that the
	// client gets, also if Allow is false.
	Request  Changes `json:"headers"`
	Response Changes `json:"response_headers"`
	// Upstream is where the request goes, by a name that the server knows, or "".
	Upstream string `json:"upstream,omitempty"`
	// Path and Query replace those of the request; nil leaves them.
	Path  *string `json:"path,omitempty"`
	Query *string `json:"query,omitempty"`
	// Metadata is a JSON object for the server's own use, or nil.
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Version of the script that decided; 0 if none did, or if several could.
	Version uint64 `json:"version,omitempty"`
	// Chain has the scripts that the request went through, such as "auth@7, cart@2", if the rule names an
	// event; "none" if none matched. It is "" otherwise.
	Chain string `json:"chain,omitempty"`
	// Reason is the kind of the error that kept the script from deciding, or "".
	Reason string `json:"reason,omitempty"`
}

// Changes of headers. Remove comes first, then Set, then Append.
type Changes struct {
	Remove []string `json:"remove,omitempty"`
	Set    []Header `json:"set,omitempty"`
	Append []Header `json:"append,omitempty"`
}

// Header is a name and a value.
type Header [2]string

// reasonHeader says, on the answer that a client gets if no script decided, why.
const reasonHeader = "Scriptorium-Reason"

// Apply changes the headers.
func (c *Changes) Apply(h http.Header) {
	for _, name := range c.Remove {
		h.Del(name)
	}
	for _, header := range c.Set {
		h.Set(header[0], header[1])
	}
	for _, header := range c.Append {
		h.Add(header[0], header[1])
	}
	c.stay(h)
}

// stay keeps proxies behind this server from dropping the headers that are set or appended. A client can
// name headers in Connection, and a proxy passes none of those on.
func (c *Changes) stay(h http.Header) {
	lines := h["Connection"]
	if len(lines) == 0 || len(c.Set)+len(c.Append) == 0 {
		return
	}
	var kept []string
	for name := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		name = strings.TrimSpace(name)
		ours := func(header Header) bool { return strings.EqualFold(header[0], name) }
		if name != "" && !slices.ContainsFunc(c.Set, ours) && !slices.ContainsFunc(c.Append, ours) {
			kept = append(kept, name)
		}
	}
	if h["Connection"] = []string{strings.Join(kept, ", ")}; len(kept) == 0 {
		delete(h, "Connection")
	}
}

// IsEmpty reports whether there is no change.
func (c *Changes) IsEmpty() bool { return len(c.Remove)+len(c.Set)+len(c.Append) == 0 }

// Answer answers a request that the decision denies.
func (d *Decision) Answer(w http.ResponseWriter) {
	h := w.Header()
	d.Response.Apply(h)
	if d.Body != "" && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if d.Status != http.StatusNoContent && d.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(d.Body)))
	}
	w.WriteHeader(d.Status)
	_, _ = w.Write([]byte(d.Body)) // a client that went away needs no answer
}

// Rewrite gives the URL the path and the query of the decision.
func (d *Decision) Rewrite(u *url.URL) {
	if d.Path != nil {
		// A path that is not escaped well is one as it is.
		u.Path, u.RawPath = *d.Path, ""
		if path, err := url.PathUnescape(*d.Path); err == nil {
			u.Path, u.RawPath = path, *d.Path
		}
	}
	if d.Query != nil {
		u.RawQuery, u.ForceQuery = *d.Query, false
	}
}

type contextKey struct{}

// FromContext returns the decision that let a request go on, or nil.
func FromContext(ctx context.Context) *Decision {
	d, _ := ctx.Value(contextKey{}).(*Decision)
	return d
}

// NewContext returns a context from which FromContext returns d.
func NewContext(ctx context.Context, d *Decision) context.Context {
	return context.WithValue(ctx, contextKey{}, d)
}

// apply returns the request and the writer that the next handler gets. The caller calls finish when the
// handler has returned.
func (d *Decision) apply(w http.ResponseWriter, r *http.Request) (after *http.Request, to http.ResponseWriter, finish func()) {
	after = r.WithContext(NewContext(r.Context(), d))
	if !d.Request.IsEmpty() {
		after.Header = r.Header.Clone()
		d.Request.Apply(after.Header)
	}
	if d.Path != nil || d.Query != nil {
		target := *r.URL
		after.URL = &target
		d.Rewrite(after.URL)
		after.RequestURI = after.URL.RequestURI()
	}
	if d.Response.IsEmpty() {
		return after, w, func() {}
	}
	changing := d.Writer(w)
	return after, changing, changing.Finish
}
