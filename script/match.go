package script

import (
	"slices"
	"strings"
)

// Attributes are what of a request a Match looks at.
type Attributes struct {
	method, host, path string
	headers            func(name string) []string
}

// AttributesOf returns what a match looks at: the method, the host as the request has it, the path as
// CleanPath writes it, and the values of a header by its name in lower case.
func AttributesOf(method, host, path string, headers func(name string) []string) Attributes {
	return Attributes{method: method, host: hostname(host), path: path, headers: headers}
}

// hostname returns the host in lower case, without a port and the dot of the root.
func hostname(host string) string {
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:at]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Matches reports whether all conditions of m hold for the request. It allocates nothing.
func (m *Match) Matches(a *Attributes) bool {
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, a.method) {
		return false
	}
	return holds(m.Hosts, a.host, isHost) && holds(m.PathPrefixes, a.path, isBelow) && m.matchesHeaders(a)
}

// holds reports whether one of the conditions does, or there are none.
func holds(conditions []string, text string, is func(text, condition string) bool) bool {
	for _, c := range conditions {
		if is(text, c) {
			return true
		}
	}
	return len(conditions) == 0
}

func isHost(host, condition string) bool {
	if suffix, wildcard := strings.CutPrefix(condition, "*"); wildcard {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	return host == condition
}

func isBelow(path, prefix string) bool {
	if prefix == "/" {
		return strings.HasPrefix(path, prefix)
	}
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

func (m *Match) matchesHeaders(a *Attributes) bool {
	for name, want := range m.Headers {
		values := a.headers(name)
		if len(values) == 0 || want != AnyValue && !slices.Contains(values, want) {
			return false
		}
	}
	return true
}
