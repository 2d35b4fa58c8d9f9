package decision

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
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
	Allow           *bool           `json:"allow"`
	Status          *int            `json:"status"`
	Body            *string         `json:"body"`
	Redirect        *string         `json:"redirect"`
	Headers         changes         `json:"headers"`
	ResponseHeaders changes         `json:"response_headers"`
	Cookies         list[cookie]    `json:"cookies"`
	RateLimit       *rateLimit      `json:"rate_limit"`
	Vary            list[string]    `json:"vary"`
	Upstream        *string         `json:"upstream"`
	Path            *string         `json:"path"`
	Query           *string         `json:"query"`
	Metadata        json.RawMessage `json:"metadata"`
}

type changes struct {
	Set    values       `json:"set"`
	Append values       `json:"append"`
	Remove list[string] `json:"remove"`
}

type rateLimit struct {
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	Reset     *int64 `json:"reset"`
}

// list is a JSON array. An empty table of Lua may be an empty object as well.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(b []byte) error {
	if string(b) == "{}" {
		return nil
	}
	return strict(b, (*[]T)(l))
}

// values are header values by name: text, or several texts.
type values map[string]list[string]

// UnmarshalJSON implements json.Unmarshaler.
func (v *values) UnmarshalJSON(b []byte) error {
	if string(b) == "[]" {
		return nil
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*v = make(values, len(raw))
	for name, value := range raw {
		if value[0] != '[' {
			value = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
		}
		var texts []textual
		if err := json.Unmarshal(value, &texts); err != nil {
			return err
		}
		for _, t := range texts {
			(*v)[name] = append((*v)[name], string(t))
		}
	}
	return nil
}

// textual is text, or a number as text: Lua does not tell them apart either.
type textual string

// UnmarshalJSON implements json.Unmarshaler.
func (t *textual) UnmarshalJSON(b []byte) error {
	var n json.Number
	if b[0] != '"' && json.Unmarshal(b, &n) == nil && n != "" {
		*t = textual(n)
		return nil
	}
	if string(b) == "null" {
		return errors.New("the value of a header is null")
	}
	return json.Unmarshal(b, (*string)(t))
}

func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

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
	var r result
	if err := members(text, &r); err != nil {
		return Decision{}, decodeError(err, "the result is no decision: %v: return nothing, or a table with members such as allow, status and headers")
	}
	d := Decision{Allow: r.Allow == nil || *r.Allow, Path: r.Path, Query: r.Query}
	b := builder{d: &d}
	for _, step := range []func(*result) error{b.verdict, b.target, b.allHeaders, b.metadata} {
		if err := step(&r); err != nil {
			return Decision{}, err
		}
	}
	return d, nil
}

// decodeError returns the Invalid error for what members returned. Advice formats an error that names
// no member.
func decodeError(err error, advice string) error {
	if own, ok := errors.AsType[*script.Error](err); ok {
		return own
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return invalid(wrong.Field, "is a %s: want %s", wrong.Value, wrong.Type)
	}
	if _, name, unknown := strings.Cut(err.Error(), "unknown field "); unknown {
		if text, err := strconv.Unquote(name); err == nil {
			return invalid(text, "is unknown")
		}
	}
	return invalid("", advice, err)
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
	if r.Redirect != nil {
		if err := b.redirect(r); err != nil {
			return err
		}
	}
	switch {
	case b.d.Allow && r.Status != nil:
		return invalid("status", "goes with allow = false, or with redirect")
	case b.d.Allow && r.Body != nil:
		return invalid("body", "goes with allow = false")
	case b.d.Allow:
		return nil
	}
	b.d.Status = http.StatusForbidden
	if r.Status != nil {
		b.d.Status = *r.Status
	}
	if b.d.Status < 200 || b.d.Status > 599 {
		return invalid("status", "is %d: want 200 to 599", b.d.Status)
	}
	if r.Body != nil {
		b.d.Body = *r.Body
	}
	if b.d.Body != "" && (b.d.Status == http.StatusNoContent || b.d.Status == http.StatusNotModified) {
		return invalid("body", "goes with no status %d", b.d.Status)
	}
	return nil
}

// redirect makes a denial of a redirect.
func (b *builder) redirect(r *result) error {
	if r.Allow != nil && *r.Allow {
		return invalid("redirect", "goes with no allow = true: a redirect answers the request")
	}
	if err := checkTarget("redirect", *r.Redirect); err != nil {
		return err
	}
	b.d.Allow = false
	if r.Status == nil {
		r.Status = new(http.StatusFound)
	}
	if *r.Status/100 != 3 || *r.Status == http.StatusNotModified {
		return invalid("status", "is %d, which is no redirect: want 301, 302, 303, 307 or 308", *r.Status)
	}
	return b.add(&b.d.Response.Set, "redirect", "location", *r.Redirect)
}

// target takes where the request goes, and what it asks for.
func (b *builder) target(r *result) error {
	if r.Upstream != nil {
		if !isUpstream(*r.Upstream) {
			return invalid("upstream", "is %.80q: want 1 to %d letters, digits and any of . _ : / @ -", *r.Upstream, maxUpstream)
		}
		b.d.Upstream = *r.Upstream
	}
	if r.Path != nil {
		if !strings.HasPrefix(*r.Path, "/") || strings.HasPrefix(*r.Path, "//") || strings.Contains(*r.Path, "?") {
			return invalid("path", "is %.80q: want one that begins with a single / and has no query", *r.Path)
		}
		if err := checkTarget("path", *r.Path); err != nil {
			return err
		}
	}
	if r.Query != nil && *r.Query != "" {
		return checkTarget("query", *r.Query)
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
