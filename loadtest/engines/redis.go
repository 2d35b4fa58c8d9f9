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
	"strconv"
	"strings"
	"time"
)

// errNoRedis says that there is none to measure.
var errNoRedis = errors.New("redis-server is not installed: there are no figures of Redis (Debian: apt-get install redis-server)")

// redisLibrary has the tasks in Lua as functions of Redis, which has neither the globals of a script nor new ones, and
// no JSON while it loads.
func redisLibrary() string {
	library := "#!lua name=tasks\nlocal config, asked\n" +
		"local kv = { get = function(key) return redis.call('GET', key) or nil end }\n" +
		"local function get_request_header(name) return asked.headers[name] end\n"
	for _, t := range []string{route, transform} {
		library += `
do
  local handle
  ` + string(task(t+".lua")) + `
  redis.register_function('` + t + `', function(keys, args)
    config = config or cjson.decode([==[` + string(task("config.json")) + `]==])
    asked = cjson.decode(args[1])
    return cjson.encode(handle(asked))
  end)
end
`
	}
	return library
}

// redisConn is a connection to a Redis.
type redisConn struct {
	conn net.Conn
	in   *bufio.Reader
}

// newRedis starts a Redis without persistence, with the tasks as functions.
func newRedis(ctx context.Context, path, dir string) (all []*contestant, stop func(), err error) {
	if path == "auto" {
		if path, err = exec.LookPath("redis-server"); err != nil {
			return nil, nil, errNoRedis
		}
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.CommandContext(ctx, path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--dir", dir, "--loglevel", "warning")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start Redis: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it says that it was interrupted
	}
	r, err := dialRedis(ctx, socket)
	if err == nil {
		err = r.prepare()
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("prepare Redis: %w", err)
	}
	for _, t := range []string{route, transform} {
		argument := string(task(t + ".json"))
		c := &contestant{task: t, name: "Redis, FCALL on a Unix socket, its own time", cpuOf: func() (time.Duration, error) { return cpuOf(cmd.Process.Pid) }}
		c.call = func(context.Context) error {
			err := r.ask("FCALL", t, "0", argument)
			return err
		}
		all = append(all, c)
	}
	return all, stop, nil
}

// dialRedis waits until Redis listens.
func dialRedis(ctx context.Context, socket string) (*redisConn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return &redisConn{conn, bufio.NewReader(conn)}, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *redisConn) prepare() error {
	if err := r.ask("FUNCTION", "LOAD", redisLibrary()); err != nil {
		return err
	}
	err := r.ask("SET", "upstreams/cart", "cart-blue")
	return err
}

// ask sends a command, and reads an answer that is a string.
func (r *redisConn) ask(words ...string) error {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(r.conn, command.String()); err != nil {
		return err
	}
	line, err := r.in.ReadString('\n')
	if err != nil {
		return err
	}
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "+"):
		return nil
	case !strings.HasPrefix(line, "$"):
		return fmt.Errorf("%s: Redis answers %q", words[0], line)
	}
	size, err := strconv.Atoi(line[1:])
	if err != nil || size < 0 {
		return fmt.Errorf("%s: Redis answers %q", words[0], line)
	}
	_, err = io.CopyN(io.Discard, r.in, int64(size+len("\r\n")))
	return err
}

// cpuOf returns the processor time of another process, which the kernel tells in hundredths of a second.
func cpuOf(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	const user, system, tick = 11, 12, 10 * time.Millisecond
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	var sum time.Duration
	for _, field := range fields[user : system+1] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
