package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// redisScript wraps the same function for EVALSHA. Redis refuses globals, so
// handle becomes a local.
func redisScript() string {
	return "local handle\n" + string(routeSource) + "\nreturn cjson.encode(handle(cjson.decode(ARGV[1])))\n"
}

// redisServer is a Redis that was started for the measurement, without
// persistence, on a Unix socket.
type redisServer struct {
	socket  string
	version string
	sha     string // of the script
	stop    func() error
}

// errNoRedis says that there is none to measure against.
var errNoRedis = errors.New("redis-server is not installed: calls are measured without their yardstick (Debian: apt-get install redis-server)")

// startRedis starts the redis-server at path; "auto" looks for one.
func startRedis(ctx context.Context, path, dir string) (*redisServer, error) {
	if path == "auto" {
		found, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, errNoRedis
		}
		path = found
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.CommandContext(ctx, path, "--port", "0", "--unixsocket", socket,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", dir, "--loglevel", "warning")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	r := &redisServer{socket: socket, stop: func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		return cmd.Wait()
	}}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare Redis: %w", err), r.stop())
	}
	return r, nil
}

func (r *redisServer) prepare(ctx context.Context) error {
	if err := waitForSocket(ctx, r.socket); err != nil {
		return err
	}
	info, err := askRedis(ctx, r.socket, "INFO", "server")
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			r.version = strings.TrimSpace(version)
		}
	}
	r.sha, err = askRedis(ctx, r.socket, "SCRIPT", "LOAD", redisScript())
	return err
}

// askRedis sends one command whose answer is a bulk string.
func askRedis(ctx context.Context, socket string, words ...string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(respCommand(words...)); err != nil {
		return "", err
	}
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	var size int
	if _, err := fmt.Sscanf(line, "$%d\r\n", &size); err != nil || size < 0 {
		return "", fmt.Errorf("%s answers %q", words[0], line)
	}
	body := make([]byte, size)
	_, err = io.ReadFull(reader, body)
	return string(body), err
}
