package grpcsock

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
)

// peerCredentials find out at the handshake what a connection's peer may use.
// Nothing is sent: the kernel knows.
type peerCredentials struct {
	access *gateway.Access
}

const protocolName = "unix-peer"

// authInfo carries what the connection's peer may use.
type authInfo struct {
	credentials.CommonAuthInfo
	grant gateway.Grant
}

// AuthType implements credentials.AuthInfo.
func (authInfo) AuthType() string { return protocolName }

// ServerHandshake implements credentials.TransportCredentials.
func (p peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, authInfo{
		// What goes over a Unix socket stays in the kernel.
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		grant:          p.access.GrantOf(conn),
	}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info implements credentials.TransportCredentials.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: protocolName}
}

// Clone implements credentials.TransportCredentials.
func (p peerCredentials) Clone() credentials.TransportCredentials { return p }

// OverrideServerName implements credentials.TransportCredentials.
func (peerCredentials) OverrideServerName(string) error { return nil }

// grantOf returns what the caller of a request may use.
func grantOf(ctx context.Context) gateway.Grant {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return gateway.Grant{}
	}
	info, _ := p.AuthInfo.(authInfo)
	return info.grant
}
