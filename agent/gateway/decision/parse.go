package decision

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a decision. The result's own limit bounds the body.
const (
	maxHeaders     = 64       // that are set, appended or removed, of request and response together
	maxHeaderBytes = 16 << 10 // of their names and values
	maxMetadata    = 16 << 10
	maxTarget      = 8 << 10 // bytes of a path, a query, a location
	maxUpstream    = 256
)

// result is a script's result as it writes it.
type result struct {
	allow                    *bool
	status                   *int
	body, redirect           *string
	headers, responseHeaders changes
	cookies                  []cookie
	rateLimit                *rateLimit
	vary                     []string
	upstream, path, query    *string
	metadata                 json.RawMessage
}

type changes struct {
	set, append []Header
	remove      []string
}

type rateLimit struct {
	limit, remaining int
	reset            *int
}

// take takes a member of a result.
func (r *result) take(name string, value []byte) (err error) {
	switch name {
	case "allow":
		r.allow, err = pointer(readBool(name, value))
	case "status":
		r.status, err = pointer(readInt(name, value))
	case "body":
		r.body, err = pointer(readText(name, value))
	case "redirect":
		r.redirect, err = pointer(readText(name, value))
	case "headers":
		err = r.headers.read(name, value)
	case "response_headers":
		err = r.responseHeaders.read(name, value)
	case "cookies":
		err = elements(name, value, func(one []byte) error {
			r.cookies = append(r.cookies, cookie{})
			return members(name, one, r.cookies[len(r.cookies)-1].take)
		})
	case "rate_limit":
		r.rateLimit = &rateLimit{}
		err = members(name, value, r.rateLimit.take)
	case "vary":
		r.vary, err = readTexts(name, value)
	case "upstream":
		r.upstream, err = pointer(readText(name, value))
	case "path":
		r.path, err = pointer(readText(name, value))
	case "query":
		r.query, err = pointer(readText(name, value))
	case "metadata":
		r.metadata = bytes.Clone(value) // the caller uses the text again
	default:
		err = unknown(name)
	}
	return err
}

func (c *changes) read(field string, object []byte) error {
	return members(field, object, func(name string, value []byte) (err error) {
		switch name {
		case "set":
			c.set, err = readHeaders(field+".set", value)
		case "append":
			c.append, err = readHeaders(field+".append", value)
		case "remove":
			c.remove, err = readTexts(field+".remove", value)
		default:
			err = unknown(name)
		}
		return err
	})
}

func (l *rateLimit) take(name string, value []byte) (err error) {
	switch name {
	case "limit":
		l.limit, err = readInt(name, value)
	case "remaining":
		l.remaining, err = readInt(name, value)
	case "reset":
		l.reset, err = pointer(readInt(name, value))
	default:
		err = unknown(name)
	}
	return err
}

func pointer[T any](v T, err error) (*T, error) { return &v, err }

// Parse makes a decision of a script's result: nil if it returned nothing. A member that is
// misspelled is an error as well as one that cannot be: a decision that is not understood must
// not let a request through. Its errors are Invalid, and name the member.
func Parse(text []byte) (Decision, error) {
	switch string(text) {
	case "", "null", "true":
		return Allowed, nil
	case "false":
		return Decision{Status: http.StatusForbidden}, nil
	}
	if text = bytes.TrimSpace(text); !json.Valid(text) || text[0] != '{' {
		return Decision{}, invalid("", "the result is no decision: return nothing, or a table with members such as allow, status and headers")
	}
	var r result
	if err := members("", text, r.take); err != nil {
		return Decision{}, err
	}
	d := Decision{Allow: r.allow == nil || *r.allow, Path: r.path, Query: r.query}
	b := builder{d: &d}
	for _, step := range []func(*result) error{b.verdict, b.target, b.allHeaders, b.metadata} {
		if err := step(&r); err != nil {
			return Decision{}, err
		}
	}
	return d, nil
}

func invalid(field, format string, args ...any) error {
	if len(field) > 64 {
		field = field[:64]
	}
	return script.Errorf(script.Invalid, field, format, args...)
}

// builder makes a decision step by step.
type builder struct {
	d       *Decision
	headers int // that it has
	bytes   int // of their names and values
}

// verdict takes what decides between going on and answering.
func (b *builder) verdict(r *result) error {
	if r.redirect != nil {
		if err := b.redirect(r); err != nil {
			return err
		}
	}
	switch {
	case b.d.Allow && r.status != nil:
		return invalid("status", "goes with allow = false, or with redirect")
	case b.d.Allow && r.body != nil:
		return invalid("body", "goes with allow = false")
	case b.d.Allow:
		return nil
	}
	b.d.Status = http.StatusForbidden
	if r.status != nil {
		b.d.Status = *r.status
	}
	if err := checkStatus(b.d.Status); err != nil {
		return err
	}
	if r.body != nil {
		b.d.Body = *r.body
	}
	if b.d.Body != "" && (b.d.Status == http.StatusNoContent || b.d.Status == http.StatusNotModified) {
		return invalid("body", "goes with no status %d", b.d.Status)
	}
	return nil
}

func checkStatus(status int) error {
	if status < 200 || status > 599 {
		return invalid("status", "is %d: want 200 to 599", status)
	}
	return nil
}

// redirect makes a denial of a redirect.
func (b *builder) redirect(r *result) error {
	if r.allow != nil && *r.allow {
		return invalid("redirect", "goes with no allow = true: a redirect answers the request")
	}
	if err := checkTarget("redirect", *r.redirect); err != nil {
		return err
	}
	b.d.Allow = false
	if r.status == nil {
		r.status = new(http.StatusFound)
	}
	if *r.status/100 != 3 || *r.status == http.StatusNotModified {
		return invalid("status", "is %d, which is no redirect: want 301, 302, 303, 307 or 308", *r.status)
	}
	return b.add(&b.d.Response.Set, "redirect", "location", *r.redirect)
}

// target takes where the request goes, and what it asks for.
func (b *builder) target(r *result) error {
	if r.upstream != nil {
		if !isUpstream(*r.upstream) {
			return invalid("upstream", "is %.80q: want 1 to %d letters, digits and any of . _ : / @ -", *r.upstream, maxUpstream)
		}
		b.d.Upstream = *r.upstream
	}
	if r.path != nil {
		if !strings.HasPrefix(*r.path, "/") || strings.HasPrefix(*r.path, "//") || strings.Contains(*r.path, "?") {
			return invalid("path", "is %.80q: want one that begins with a single / and has no query", *r.path)
		}
		if err := checkTarget("path", *r.path); err != nil {
			return err
		}
	}
	if r.query != nil && *r.query != "" {
		return checkTarget("query", *r.query)
	}
	return nil
}

// checkTarget returns an error unless the text can be part of a request line: printable ASCII.
func checkTarget(field, text string) error {
	if text == "" || len(text) > maxTarget {
		return invalid(field, "has %d bytes: want 1 to %d", len(text), maxTarget)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '#' && field != "redirect" {
			return invalid(field, "has %q at byte %d: write it as %%%02X", c, i, c)
		}
	}
	return nil
}

func isUpstream(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._:/@-", c) < 0 {
			return false
		}
	}
	return text != "" && len(text) <= maxUpstream
}
