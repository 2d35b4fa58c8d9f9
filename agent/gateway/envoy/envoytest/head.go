package envoytest

import (
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/net/http/httpguts"
)

const (
	pathHeader   = ":path"
	statusHeader = ":status"
)

// head is a HeaderMap of Envoy: names are in lower case, and some begin with a colon.
type head map[string][]string

func headOf(h http.Header) head {
	to := head{}
	for name, values := range h {
		to[strings.ToLower(name)] = append([]string(nil), values...)
	}
	return to
}

func (h head) get(name string) string {
	if len(h[name]) == 0 {
		return ""
	}
	return h[name][0]
}

func (h head) set(name, value string) { h[name] = []string{value} }        // setCopy
func (h head) add(name, value string) { h[name] = append(h[name], value) } // addCopy
func (h head) remove(name string)     { delete(h, name) }

// join is appendCopy: the value follows the first one, in its line.
func (h head) join(name, value string) {
	if len(h[name]) == 0 {
		h.add(name, value)
		return
	}
	between := ","
	if name == "cookie" {
		between = "; "
	}
	h[name][0] += between + value
}

// Limits of a head, as the manager of connections has them by default.
const (
	mostHeaders = 100
	mostBytes   = 60 << 10
)

// tooLarge reports whether the head exceeds the limits.
func (h head) tooLarge() bool {
	lines, size := 0, 0
	for name, values := range h {
		lines += len(values)
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return lines > mostHeaders || size > mostBytes
}

// removable is isRemovableHeader of source/common/http/header_utility.cc.
func removable(name string) bool { return !strings.HasPrefix(name, ":") && name != "host" }

// valid is headerNameIsValid and headerValueIsValid.
func valid(name, value string) bool {
	return httpguts.ValidHeaderFieldName(strings.TrimPrefix(name, ":")) && httpguts.ValidHeaderFieldValue(value)
}

// how a change treats the values that are there.
type how uint8

const (
	sets  how = iota // replaces them
	adds             // adds a line
	joins            // joins them: what append = true means to ext_authz
)

// change of a head.
type change struct {
	name, value string
	how         how
}

// changesOf returns the changes, in which append wins over append_action. ok is false if Envoy knows no such action.
func changesOf(options []*corev3.HeaderValueOption, value func(*corev3.HeaderValue) string, appends how) (changes []change, ok bool) {
	for _, o := range options {
		c := change{name: strings.ToLower(o.GetHeader().GetKey()), value: value(o.GetHeader())}
		deprecated := o.GetAppend() //nolint:staticcheck // Envoy reads it, and agents set it
		switch {
		case deprecated.GetValue():
			c.how = appends
		case deprecated != nil, o.GetAppendAction() == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			c.how = sets
		case o.GetAppendAction() == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			c.how = adds
		default:
			return nil, false
		}
		changes = append(changes, c)
	}
	return changes, true
}

func (h head) apply(c change) {
	switch c.how {
	case sets:
		h.set(c.name, c.value)
	case adds:
		h.add(c.name, c.value)
	case joins:
		if len(h[c.name]) > 0 { // releases before append_action ignore it otherwise
			h.join(c.name, c.value)
		}
	}
}
