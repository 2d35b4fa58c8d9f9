package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
)

// node is one agent as a gateway beside it sees it: three of its sockets.
type node struct {
	name   string
	socket string // of the Redis protocol
	redis  *redis.Client
	http   *http.Client
	grpc   *agentclient.Client
}

func openNode(name, dir string) (*node, error) {
	grpc, err := agentclient.New("unix:" + filepath.Join(dir, "grpc.sock"))
	if err != nil {
		return nil, err
	}
	return &node{
		name:   name,
		socket: filepath.Join(dir, "resp.sock"),
		redis: redis.NewClient(&redis.Options{
			Network: "unix", Addr: filepath.Join(dir, "resp.sock"), MaxRetries: -1, PoolSize: 2,
		}),
		http: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", filepath.Join(dir, "http.sock"))
			},
		}},
		grpc: grpc,
	}, nil
}

func (n *node) close() {
	// Closing clients cannot fail in a way that matters to a demo that is over.
	_ = n.redis.Close()
	_ = n.grpc.Close()
	n.http.CloseIdleConnections()
}

// resp calls the script over the Redis protocol.
func (n *node) resp(ctx context.Context, ref, arg string) (string, error) {
	answer, err := n.redis.Do(ctx, "FCALL", ref, 0, arg).Text()
	if err != nil {
		return "", fmt.Errorf("%s, RESP: %w", n.name, err)
	}
	return answer, nil
}

// post calls the script over HTTP.
func (n *node) post(ctx context.Context, ref, arg string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/execute/"+ref, strings.NewReader(arg))
	if err != nil {
		return "", err
	}
	response, err := n.http.Do(request)
	if err != nil {
		return "", fmt.Errorf("%s, HTTP: %w", n.name, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("%s, HTTP: %w", n.name, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s, HTTP: %s: %s", n.name, response.Status, bytes.TrimSpace(body))
	}
	return string(bytes.TrimSpace(body)), nil
}

// call calls the script over gRPC.
func (n *node) call(ctx context.Context, ref, arg string) (string, error) {
	result, err := n.grpc.Call(ctx, ref, json.RawMessage(arg))
	if err != nil {
		return "", fmt.Errorf("%s, gRPC: %w", n.name, err)
	}
	if len(result.Values) != 1 {
		return "", fmt.Errorf("%s, gRPC: %d results, want one", n.name, len(result.Values))
	}
	return string(result.Values[0]), nil
}
