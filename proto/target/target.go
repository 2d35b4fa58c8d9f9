// Package target reads where a registry or an agent is, as people write it on
// command lines, for gRPC to dial.
package target

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Parse returns what gRPC has to dial, and how, for "unix:PATH",
// "unix:///PATH", "host:port" or "dns:///host:port". Its errors are Invalid.
//
// gRPC reads a target as a URL. The path of a socket is none, and may hold what a
// URL may not, so it is dialled here.
func Parse(target string) (endpoint string, options []grpc.DialOption, err error) {
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		if strings.HasPrefix(path, "///") {
			path = path[len("//"):]
		}
		if path == "" {
			return "", nil, script.Errorf(script.Invalid, "target", "%q names no socket: want unix:PATH", target)
		}
		dial := func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		return "passthrough:///localhost", []grpc.DialOption{grpc.WithContextDialer(dial)}, nil
	}
	address := strings.TrimPrefix(target, "dns:///")
	if _, port, err := net.SplitHostPort(address); err == nil && port != "" {
		return target, nil, nil
	}
	return "", nil, script.Errorf(script.Invalid, "target", "%.200q is no address: want unix:PATH or host:port", target)
}
