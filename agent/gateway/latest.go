package gateway

import (
	"net"
	"slices"
	"sync"
)

// Latest keeps the connections that came last: one too many closes the oldest of the caller
// that has the most. So whoever opens many keeps nobody else out. It is safe for concurrent
// use.
type Latest struct {
	most int

	mu    sync.Mutex
	conns []*latest // the oldest first
}

type latest struct {
	conn   net.Conn
	caller string
}

// NewLatest keeps so many.
func NewLatest(most int) *Latest { return &Latest{most: most} }

// Listen returns a listener whose connections are kept so. Their callers are their hosts.
func (s *Latest) Listen(l net.Listener) net.Listener { return &latestListener{Listener: l, spare: s} }

type latestListener struct {
	net.Listener
	spare *Latest
}

// Accept implements net.Listener.
func (l *latestListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return l.spare.hold(conn, host), nil
}

func (s *Latest) hold(conn net.Conn, caller string) net.Conn {
	entry := s.enter(conn, caller)
	return hold(conn, holder{release: func() { s.remove(entry) }, spare: true, tenant: tenantOf(conn)})
}

// enter keeps the connection until it is removed, or is one too many.
func (s *Latest) enter(conn net.Conn, caller string) *latest {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := &latest{conn: conn, caller: caller}
	s.conns = append(s.conns, entry)
	if len(s.conns) > s.most {
		_ = s.oldestOfMost().conn.Close()
	}
	return entry
}

// oldestOfMost takes out the oldest connection of the caller that has the most.
func (s *Latest) oldestOfMost() *latest {
	held, most := map[string]int{}, ""
	for _, l := range s.conns {
		if held[l.caller]++; held[l.caller] > held[most] {
			most = l.caller
		}
	}
	for i, l := range s.conns {
		if l.caller == most {
			s.conns = slices.Delete(s.conns, i, i+1)
			return l
		}
	}
	return nil
}

func (s *Latest) remove(entry *latest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(l *latest) bool { return l == entry })
}

// IsSpare reports whether a Latest keeps the connection.
func IsSpare(conn net.Conn) bool {
	held, ok := conn.(interface{ isSpare() bool })
	return ok && held.isSpare()
}
