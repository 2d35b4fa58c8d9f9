package httpsock

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/callers"
	"github.com/scriptorium-dev/scriptorium/script"
)

// peer is whom a connection comes from. The requests of a connection come one after the other, and so do
// changes of its peer.
type peer struct {
	grant gateway.Grant
	spare bool // it is one too many: see Options.Connections

	unknown *gateway.UnknownConn // of a server with Options.Identify
	secure  *tls.Conn            // nil without TLS
}

type peerKey struct{}

func peerOf(r *http.Request) *peer {
	p, _ := r.Context().Value(peerKey{}).(*peer)
	return p
}

func grantOf(r *http.Request) gateway.Grant { return peerOf(r).grant }

func originOf(r *http.Request) gateway.Origin {
	return gateway.Origin{Protocol: "http", Caller: grantOf(r).Caller()}
}

func (s *Server) newPeer(conn net.Conn) *peer {
	if s.opts.Identify == nil {
		return &peer{grant: s.opts.Access.GrantOf(conn), spare: gateway.IsSpare(conn)}
	}
	p := &peer{}
	if secure, ok := conn.(*tls.Conn); ok {
		p.secure, conn = secure, secure.NetConn()
	}
	p.unknown, _ = conn.(*gateway.UnknownConn)
	return p
}

// unknownConns are kept at most that have not shown whose they are, and fewer where the process may have few
// descriptors. A handshake and a head take a moment: who opens many has to open so many in that moment to
// keep somebody out.
const unknownConns = 512

// listenUnknown returns a listener for connections whose requests say whose they are. net/http does not see
// the TLS below: the lines of a head count when they are decrypted.
func (s *Server) listenUnknown(l net.Listener) net.Listener {
	l = gateway.UnknownEntry{Connections: s.opts.Connections, Bytes: connBytes, Unknown: gateway.NewLatest(s.opts.Connections.SetAside(unknownConns))}.Listen(l)
	if s.opts.TLS != nil {
		l = tls.NewListener(l, s.opts.TLS)
	}
	return l
}

// identify finds out who sends the request, before anything of its body is read. It reports whether the
// request may go on; if not, it has answered.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) bool {
	p := peerOf(r)
	p.grant = gateway.Grant{}
	grant, err := s.opts.Identify(r.Header[callers.Header], p.certificate(), time.Now())
	if err != nil {
		err = &statusError{http.StatusUnauthorized, script.AsError(err)}
	} else if !p.unknown.Admit(grant.Caller()) {
		err = errTooMany
	}
	if err != nil {
		w.Header().Set("Connection", "close")
		s.fail(w, err)
		return false
	}
	p.grant = grant
	return true
}

// certificate returns the verified certificate of the client, or nil.
func (p *peer) certificate() *x509.Certificate {
	if p.secure == nil {
		return nil
	}
	if chains := p.secure.ConnectionState().VerifiedChains; len(chains) > 0 {
		return chains[0][0]
	}
	return nil
}
