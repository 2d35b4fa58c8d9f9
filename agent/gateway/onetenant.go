package gateway

import "net"

// OneTenant returns a listener whose connections may use the tenant and no other. The permissions of the socket decide
// who can connect. A server of any protocol serves it beside its other listeners.
func OneTenant(l *net.UnixListener, tenant string) net.Listener {
	return &oneTenant{UnixListener: l, tenant: tenant}
}

type oneTenant struct {
	*net.UnixListener
	tenant string
}

// Accept implements net.Listener.
func (l *oneTenant) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return hold(conn, holder{release: func() {}, tenant: l.tenant}), nil
}

// tenantOf returns the tenant whose socket the connection came to, or "" for a socket of all
// tenants.
func tenantOf(conn net.Conn) string {
	if c, ok := conn.(interface{ onlyTenant() string }); ok {
		return c.onlyTenant()
	}
	return ""
}
