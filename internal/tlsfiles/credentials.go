package tlsfiles

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// handshaker makes each handshake with what the files hold then.
type handshaker struct {
	material   *Material
	serverName string // "": the address's
}

// ClientHandshake implements credentials.TransportCredentials.
func (h *handshaker) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := h.material.Client()
	if err != nil {
		return nil, nil, err
	}
	if h.serverName != "" {
		authority = h.serverName
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials.
func (h *handshaker) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := h.material.Server()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ServerHandshake(conn)
}

// Info implements credentials.TransportCredentials.
func (h *handshaker) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", SecurityVersion: "1.3", ServerName: h.serverName} //nolint:staticcheck // gRPC itself reads ServerName
}

// Clone implements credentials.TransportCredentials.
func (h *handshaker) Clone() credentials.TransportCredentials {
	clone := *h
	return &clone
}

// OverrideServerName implements credentials.TransportCredentials.
func (h *handshaker) OverrideServerName(name string) error {
	h.serverName = name
	return nil
}
