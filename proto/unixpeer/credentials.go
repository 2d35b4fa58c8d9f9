package unixpeer

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Credentials are a gRPC server's transport credentials for Unix sockets. They call
// know once for each connection, and FromContext returns its result to calls. Nothing
// is sent: the kernel knows the peer.
func Credentials[T any](know func(net.Conn) T) credentials.TransportCredentials {
	return serverCredentials[T]{know: know}
}

// FromContext returns what Credentials found out about the caller of a request; ok
// is false if it came by other credentials.
func FromContext[T any](ctx context.Context) (known T, ok bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return known, false
	}
	return FromAuthInfo[T](p.AuthInfo)
}

// FromAuthInfo returns what Credentials found out about the peer of a connection; ok
// is false for other credentials.
func FromAuthInfo[T any](info credentials.AuthInfo) (known T, ok bool) {
	ours, ok := info.(authInfo[T])
	return ours.known, ok
}

const protocolName = "unix-peer"

type authInfo[T any] struct {
	credentials.CommonAuthInfo
	known T
}

// AuthType implements credentials.AuthInfo.
func (authInfo[T]) AuthType() string { return protocolName }

type serverCredentials[T any] struct {
	know func(net.Conn) T
}

// ServerHandshake implements credentials.TransportCredentials.
func (c serverCredentials[T]) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, authInfo[T]{
		// What goes over a Unix socket stays in the kernel.
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		known:          c.know(conn),
	}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (serverCredentials[T]) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

// Info implements credentials.TransportCredentials.
func (serverCredentials[T]) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: protocolName}
}

// Clone implements credentials.TransportCredentials.
func (c serverCredentials[T]) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (serverCredentials[T]) OverrideServerName(string) error { return nil }
