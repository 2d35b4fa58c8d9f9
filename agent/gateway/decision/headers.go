package decision

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// allHeaders takes all changes of headers, and what becomes one.
func (b *builder) allHeaders(r *result) error {
	if err := b.changes("headers", r.headers, &b.d.Request); err != nil {
		return err
	}
	if err := b.changes("response_headers", r.responseHeaders, &b.d.Response); err != nil {
		return err
	}
	for _, c := range r.cookies {
		text, err := c.text()
		if err != nil {
			return err
		}
		if err := b.add(&b.d.Response.Append, "cookies", "set-cookie", text); err != nil {
			return err
		}
	}
	if r.rateLimit != nil {
		if err := b.rateLimit(r.rateLimit); err != nil {
			return err
		}
	}
	for _, name := range r.vary {
		if !httpguts.ValidHeaderFieldName(name) {
			return invalid("vary", "%.80q is no name of a header", name)
		}
		if err := b.add(&b.d.Response.Append, "vary", "vary", strings.ToLower(name)); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) rateLimit(l *rateLimit) error {
	if l.limit < 0 || l.remaining < 0 || l.reset != nil && *l.reset < 0 {
		return invalid("rate_limit", "has a number below 0")
	}
	lines := []Header{{"ratelimit-limit", strconv.Itoa(l.limit)}, {"ratelimit-remaining", strconv.Itoa(l.remaining)}}
	if l.reset != nil {
		seconds := strconv.Itoa(*l.reset)
		lines = append(lines, Header{"ratelimit-reset", seconds})
		if !b.d.Allow && b.d.Status == http.StatusTooManyRequests {
			lines = append(lines, Header{"retry-after", seconds})
		}
	}
	for _, line := range lines {
		if err := b.add(&b.d.Response.Set, "rate_limit", line.Name, line.Value); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) changes(field string, from changes, to *Changes) error {
	for _, name := range from.remove {
		if err := b.check(field+".remove", name, ""); err != nil {
			return err
		}
		to.Remove = append(to.Remove, strings.ToLower(name))
	}
	for i, h := range from.set {
		list := &to.Set
		if i > 0 && from.set[i-1].Name == h.Name { // the first one replaces what is there
			list = &to.Append
		}
		if err := b.add(list, field+".set", h.Name, h.Value); err != nil {
			return err
		}
	}
	for _, h := range from.append {
		if err := b.add(&to.Append, field+".append", h.Name, h.Value); err != nil {
			return err
		}
	}
	return nil
}

// add appends a header to the list, if that can be.
func (b *builder) add(list *[]Header, field, name, value string) error {
	if err := b.check(field, name, value); err != nil {
		return err
	}
	*list = append(*list, Header{strings.ToLower(name), value})
	return nil
}

// check returns an error unless the script may change the header, and there is room for it.
func (b *builder) check(field, name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return invalid(field, "%.80q is no name of a header", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return invalid(field, "the value of %s has a control character", name)
	case isReserved(strings.ToLower(name)):
		return invalid(field, "%s belongs to the gateway: a script cannot change it", name)
	}
	b.headers++
	b.bytes += len(name) + len(value)
	if b.headers > maxHeaders || b.bytes > maxHeaderBytes {
		return invalid(field, "there are more than %d headers, or %d bytes of them", maxHeaders, maxHeaderBytes)
	}
	return nil
}

// isReserved reports whether the header, in lower case, says where a message ends or which host it
// is for, steers the gateway, or is ours.
func isReserved(name string) bool {
	switch name {
	case "connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "x-sendfile":
		return true
	}
	return strings.HasPrefix(name, "scriptorium-") || strings.HasPrefix(name, "x-accel-")
}

func (b *builder) metadata(r *result) error {
	text := bytes.TrimSpace(r.metadata)
	switch {
	case len(text) == 0, string(text) == "null", string(text) == "[]":
		return nil
	case text[0] != '{':
		return invalid("metadata", "is no table with names")
	case len(text) > maxMetadata:
		return invalid("metadata", "has %d bytes of JSON: want at most %d", len(text), maxMetadata)
	}
	b.d.Metadata = text
	return nil
}
