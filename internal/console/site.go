package console

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/script"
)

// policy lets pages load what the console serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// site is where browsers find the console.
type site struct {
	cookies

	host string // the only one; "" for any that TLS vouches for, or that is this machine
}

// newSite reads Config.URL, Secure and Address.
func newSite(cfg Config) (site, error) {
	s := site{cookies: cookies{secure: cfg.Secure}}
	if _, s.port, _ = net.SplitHostPort(cfg.Address); cfg.URL == "" {
		return s, nil
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return s, script.Errorf(script.Invalid, "--url", "%.200q is not the address of a site: want one such as https://console.example", cfg.URL)
	}
	switch {
	case u.Scheme == "https":
		s.secure = true
	case u.Scheme != "http" || cfg.Secure || !isLoopback(u.Host):
		return s, script.Errorf(script.Invalid, "--url", "%.200q is not encrypted: want https://, or http:// with a name of this machine and without --tls-cert", cfg.URL)
	}
	s.host = u.Host
	return s, nil
}

// serves reports whether the host of a request is the console's. A page of another name that resolves to this machine would
// have the same origin otherwise.
func (s site) serves(host string) bool {
	if s.host != "" {
		return strings.EqualFold(host, s.host)
	}
	return s.secure || isLoopback(host)
}

// guard sets the headers of all answers, and refuses requests for other hosts, and those that a page of another site makes.
// A request has arrived within the time, or its connection ends.
func (s site) guard(m *metrics, arrival time.Duration, next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.refused("cross_origin")
		refuse(w, r, failure(script.Errorf(script.Denied, "", "this request comes from a page of another site: open the console itself")))
	}))
	next = sameOrigin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(answerTimeout)) // of HTTP/1.1, in place of the last request's
		if r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(arrival)) // also of what no handler reads
		}
		h := w.Header()
		h.Set("Cache-Control", "no-cache") // unless the handler says another thing
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Embedder-Policy", "require-corp")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		if s.secure {
			h.Set("Strict-Transport-Security", "max-age=63072000")
		}
		if !s.serves(r.Host) {
			m.refused("other_host")
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "this console has another name: open it by the address that it printed, or set --url", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// unknownMethod answers calls of methods that browsers do not have.
func unknownMethod(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, failureAs(connect.CodeUnimplemented, script.Errorf(script.Invalid, "", "the console has no method %.200q", r.URL.Path)))
}
