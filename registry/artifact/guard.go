package artifact

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/scriptorium-dev/scriptorium/script"
)

// maxRedirects of a request: a registry sends clients to the store of its blobs, which may send them to its nearest copy.
const maxRedirects = 5

// guard decides what may be connected to. A registry that is allowed may be on a private network, since the operator has
// named it. It can send clients elsewhere, for blobs and for tokens: only over TLS, and only to public addresses, so
// that it leads nobody to the services beside this one. Addresses are judged when they are connected to, after the
// name was resolved.
type guard struct {
	allowed   []pattern
	plainHTTP bool
	dialer    net.Dialer
}

// pattern is of hosts that are allowed.
type pattern struct {
	host string // without "*" of "*.example"
	port string
	all  bool // hosts whose names end with host
}

var patternOfHosts = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)

// usualPort is of a reference without one, also where TLS is not used.
const usualPort = "443"

func newGuard(cfg Config) (*guard, error) {
	g := &guard{plainHTTP: cfg.PlainHTTP, dialer: net.Dialer{Timeout: 5 * time.Second}}
	for _, text := range cfg.Registries {
		if !patternOfHosts.MatchString(text) {
			return nil, script.Errorf(script.Invalid, "", `%.100q is not a host such as ghcr.io, registry.example:5000 or *.example`, text)
		}
		host, port := split(text)
		rest, all := strings.CutPrefix(host, "*")
		g.allowed = append(g.allowed, pattern{host: rest, port: port, all: all})
	}
	return g, nil
}

// split returns the host in lower case, and the port or the usual one.
func split(address string) (host, port string) {
	host, port, ok := strings.Cut(strings.ToLower(address), ":")
	if !ok {
		port = usualPort
	}
	return host, port
}

// allows reports whether the operator has named the host.
func (g *guard) allows(address string) bool {
	host, port := split(address)
	for _, p := range g.allowed {
		if p.port == port && (p.host == host || p.all && strings.HasSuffix(host, p.host)) {
			return true
		}
	}
	return false
}

// checkRegistry returns an error unless references may name the host.
func (g *guard) checkRegistry(address string) error {
	if !g.allows(address) {
		return script.Errorf(script.Invalid, field, "this registry may not fetch from %s: add that host to --artifact-registries of registryd, or send the source itself", address)
	}
	return nil
}

// plain reports whether the host is spoken to without TLS: only this machine itself is.
func (g *guard) plain(address string) bool {
	host, _ := split(address)
	ip, err := netip.ParseAddr(host)
	return g.plainHTTP && (host == "localhost" || err == nil && ip.IsLoopback())
}

// client connects to what the guard allows. It uses no proxy, which would hide the address that it connects to.
func (g *guard) client(tlsConfig *tls.Config) *http.Client {
	transport := &http.Transport{
		DialContext:            g.dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // sizes are of what is sent
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           maxFetches,
		IdleConnTimeout:        10 * time.Second,
	}
	return &http.Client{Transport: guarded{guard: g, next: transport}, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return script.Errorf(script.Invalid, field, "the OCI registry answers with more than %d redirects", maxRedirects)
		}
		return nil
	}}
}

// guarded checks each request: the first, those that follow redirects, and those for tokens.
type guarded struct {
	guard *guard
	next  http.RoundTripper
}

func (t guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.guard.checkURL(req.URL); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(req)
}

func (g *guard) checkURL(u *url.URL) error {
	switch {
	case u.User != nil:
		return script.Errorf(script.Invalid, field, "the OCI registry sends clients to %s with a password in the URL", u.Hostname())
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && g.plain(u.Host) && g.allows(u.Host):
		return nil
	}
	return script.Errorf(script.Invalid, field, "%s would be spoken to without TLS: --artifact-plain-http of registryd allows that for registries on loopback only", u.Host)
}

// dial connects to addresses that the host may have.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := g.dialer
	host, port, _ := net.SplitHostPort(address)
	named := g.allows(address) || port == "80" && g.plain(host) && g.allows(host) // which has no port in the reference
	d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		return checkAddress(address, resolved, named)
	}
	return d.DialContext(ctx, network, address)
}

// checkAddress returns an error unless a host may have the address; named says that the operator has named the host.
func checkAddress(host, resolved string, named bool) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return script.Errorf(script.Invalid, field, "%s has the address %q, which is none", host, resolved)
	}
	ip := embedded(at.Addr().Unmap().WithZone(""))
	switch {
	case ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast(): // where clouds keep their keys
	case named:
		return nil
	case ip.IsGlobalUnicast() && !ip.IsPrivate() && !reserved(ip):
		return nil
	}
	return script.Errorf(script.Invalid, field, "%s is on a private network, and --artifact-registries of registryd does not name it", host)
}

// embedded returns the IPv4 address that a gateway makes of the address (NAT64, 6to4), or the address itself.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

// reserved reports whether the address is of no public host, though netip takes it for global: it is of this network,
// of a carrier's NAT, for benchmarks, or for later.
func reserved(ip netip.Addr) bool {
	for _, prefix := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "168.63.129.16/32"} {
		if netip.MustParsePrefix(prefix).Contains(ip) {
			return true
		}
	}
	return false
}
