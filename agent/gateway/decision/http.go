package decision

import (
	"net/http"
	"slices"
	"strings"
)

// URIHeaders and MethodHeaders are those in which gateways say what the client asks for. Some send the
// first family, and some the second.
var (
	URIHeaders    = []string{"X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url"}
	MethodHeaders = []string{"X-Forwarded-Method", "X-Original-Method"}
	// notShown are not for the script: they are of one connection, or from the gateway.
	notShown = slices.Concat(URIHeaders, MethodHeaders, []string{"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"})
)

// HeadersOf returns the headers that the script sees of a request over HTTP. The values are h's.
func HeadersOf(h http.Header) map[string][]string {
	shown := make(map[string][]string, len(h))
	for name, values := range h {
		if !strings.HasPrefix(name, "Scriptorium-") && !slices.Contains(notShown, name) {
			shown[name] = values
		}
	}
	return shown
}
