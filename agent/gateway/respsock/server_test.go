package respsock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/script"
)

// serve starts a server and returns it and its socket's path.
func serve(t *testing.T, opts respsock.Options) (*respsock.Server, string) {
	t.Helper()
	if opts.Executor == nil {
		opts.Executor = gatewaytest.New()
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "resp.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := respsock.New(opts)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, respsock.ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s, path
}

// client is a connection on which tests write bytes of their choice.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, path string) *client {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads as many bytes as want has.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
		c.t.Fatalf("got %.500q (%v), want %.500q", got[:n], err, want)
	}
}

// expectEnd expects that the server closes the connection.
func (c *client) expectEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil && !strings.Contains(err.Error(), "reset") || len(rest) > 0 {
		c.t.Fatalf("got %.500q (%v), want the end", rest, err)
	}
}

// expectLine reads a line that contains want.
func (c *client) expectLine(want string) {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	if err != nil || !strings.Contains(line, want) {
		c.t.Fatalf("got %.500q (%v), want a line with %q", line, err, want)
	}
}

// command encodes a command as clients do.
func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

func TestCommands(t *testing.T) {
	x := gatewaytest.New()
	x.Set("other/key", gatewaytest.Key)
	_, path := serve(t, respsock.Options{Version: "1.2.3", Executor: x})
	digest := gatewaytest.DigestOf(script.Name{Tenant: "acme", Script: "echo"}).String()
	for _, tt := range []struct {
		words string // separated by blanks
		resp2 string
		resp3 string // "": the same
	}{
		{words: "FCALL acme/echo 0 1", resp2: "$1\r\n1\r\n"},
		{words: `fcall acme/echo 0 {"a":[]}`, resp2: "$8\r\n{\"a\":[]}\r\n"},
		{words: "FCALL_RO acme/echo 0 1 2", resp2: "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"},
		{words: "FCALL acme/nothing 0", resp2: "$-1\r\n", resp3: "_\r\n"},
		{words: "FCALL acme/echo 1 k", resp2: "-INVALID numkeys: must be 0, since scripts have no keys: FCALL tenant/script 0 [ARG ...]\r\n"},
		{words: "FCALL acme/echo", resp2: "-ERR wrong number of arguments for 'fcall' command\r\n"},
		{words: "FCALL acme/none 0", resp2: "-NOTFOUND script: there is no acme/none\r\n"},
		{words: "FCALL acme/echo@9 0", resp2: "-NOTFOUND script: there is no acme/echo@9\r\n"},
		{words: "FCALL nonsense 0", resp2: "-INVALID script: \"nonsense\" is not a script's name: want tenant/name\r\n"},
		{words: "FCALL acme/fail 0", resp2: "-SCRIPT it broke  badly (line 3)\r\n"},
		{words: "FCALL acme/panic 0", resp2: "-INTERNAL the agent failed to run the script; its log says why\r\n"},
		{words: "SCRIPTORIUM.CALL acme/echo 2 1 2", resp2: "*4\r\n:7\r\n$71\r\n" + digest + "\r\n:412\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n"},
		{words: "SCRIPTORIUM.CALL acme/trace 0 timeout 5000 TRACEPARENT 00-ab", resp2: "*4\r\n:7\r\n$71\r\n" +
			gatewaytest.DigestOf(script.Name{Tenant: "acme", Script: "trace"}).String() + "\r\n:412\r\n*1\r\n$7\r\n\"00-ab\"\r\n"},
		{words: "SCRIPTORIUM.CALL other/key 0 KEY ann", resp2: "*4\r\n:7\r\n$71\r\n" +
			gatewaytest.DigestOf(script.Name{Tenant: "other", Script: "key"}).String() + "\r\n:412\r\n*1\r\n$40\r\n{\"allow\":false,\"body\":\"ann, no request\"}\r\n"},
		{words: "FCALL other/key 0", resp2: "$37\r\n{\"allow\":false,\"body\":\", no request\"}\r\n"}, // not that of the call before
		{words: "SCRIPTORIUM.CALL acme/wait 0 TIMEOUT 1", resp2: "-TIMEOUT the call's time ran out\r\n"},
		{words: "SCRIPTORIUM.CALL acme/echo 2 1", resp2: "-INVALID numargs: \"2\" is not the number of arguments that follow: want SCRIPTORIUM.CALL tenant/script numargs [ARG ...] [TIMEOUT milliseconds] [TRACEPARENT traceparent] [KEY key]\r\n"},
		{words: "PING", resp2: "+PONG\r\n"},
		{words: "PING hi", resp2: "$2\r\nhi\r\n"},
		{words: "ECHO hi", resp2: "$2\r\nhi\r\n"},
		{words: "SELECT 0", resp2: "+OK\r\n"},
		{words: "SELECT 1", resp2: "-ERR DB index is out of range: there is only 0\r\n"},
		{words: "CLIENT SETNAME me", resp2: "+OK\r\n"},
		{words: "CLIENT GETNAME", resp2: "$2\r\nme\r\n"},
		{words: "CLIENT SETINFO LIB-NAME go", resp2: "+OK\r\n"},
		{words: "CLIENT NO-EVICT ON", resp2: "+OK\r\n"},
		{words: "CLIENT KILL", resp2: "-ERR unknown subcommand or wrong number of arguments for 'KILL'\r\n"},
		{words: "CONFIG GET save", resp2: "*2\r\n$4\r\nsave\r\n$0\r\n\r\n", resp3: "%1\r\n$4\r\nsave\r\n$0\r\n\r\n"},
		{words: "CONFIG GET maxmemory", resp2: "*0\r\n", resp3: "%0\r\n"},
		{words: "COMMAND COUNT", resp2: ":15\r\n"},
		{words: "COMMAND INFO nope", resp2: "*1\r\n$-1\r\n", resp3: "*1\r\n_\r\n"},
		{words: "HELLO 4", resp2: "-NOPROTO unsupported protocol version\r\n"},
		{words: "GET k v", resp2: "-ERR unknown command 'GET', with args beginning with: 'k' 'v' \r\n"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			c := dial(t, path)
			if strings.HasPrefix(tt.words, "CLIENT GETNAME") {
				c.send(command("CLIENT", "SETNAME", "me"))
				c.expect("+OK\r\n")
			}
			request := command(strings.Split(tt.words, " ")...)
			c.send(request)
			c.expect(tt.resp2)
			c.send(command("HELLO", "3"))
			c.expectLine("%7")
			c.send(command("PING"))
			for line := ""; line != "+PONG\r\n"; line, _ = c.r.ReadString('\n') {
			}
			c.send(request)
			c.expect(orElse(tt.resp3, tt.resp2))
		})
	}
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func TestHello(t *testing.T) {
	_, path := serve(t, respsock.Options{Version: "1.2.3"})
	c := dial(t, path)
	c.send(command("HELLO", "3", "SETNAME", "me"))
	c.expect("%7\r\n$6\r\nserver\r\n$11\r\nscriptorium\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n" +
		"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n")
	c.send(command("CLIENT", "GETNAME") + command("RESET") + command("CLIENT", "GETNAME"))
	c.expect("$2\r\nme\r\n+RESET\r\n$-1\r\n")
	c.send(command("AUTH", "secret"))
	c.expectLine("-ERR AUTH called without any password configured")
	c.send(command("HELLO", "3", "AUTH", "default", "secret"))
	c.expectLine("-ERR AUTH called without any password configured")
	c.send(command("QUIT"))
	c.expect("+OK\r\n")
	c.expectEnd()
}

func TestInfoSaysRevisionAndStaleness(t *testing.T) {
	_, path := serve(t, respsock.Options{Version: "1.2.3"})
	c := dial(t, path)
	c.send("INFO\r\nQUIT\r\n")
	all, _ := io.ReadAll(c.r)
	for _, want := range []string{"scriptorium_version:1.2.3\r\n", "revision:42\r\n", "staleness_ms:412\r\n", "connected_clients:1\r\n"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("INFO does not say %q:\n%s", want, all)
		}
	}
}

func TestErrorsByKind(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	c := dial(t, path)
	for _, kind := range []script.Kind{
		script.NotFound, script.Disabled, script.Script, script.Timeout, script.Limit, script.Overloaded,
		script.Denied, script.Invalid, script.Unavailable, script.Internal,
	} {
		c.send(command("FCALL", "acme/kind", "0", `"`+string(kind)+`"`))
		c.expect("-" + string(kind) + " as asked for\r\n")
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/long", func(context.Context, *gateway.Call) ([][]byte, error) {
		return nil, script.Errorf(script.Script, "", "%s", strings.Repeat("ü", 100_000))
	})
	_, path := serve(t, respsock.Options{Executor: x})
	c := dial(t, path)
	c.send(command("FCALL", "acme/long", "0") + command("PING"))
	line, err := c.r.ReadString('\n')
	if err != nil || len(line) > 4096 || !strings.HasSuffix(line, "ü…\r\n") {
		t.Errorf("got %d bytes ending in %q (%v)", len(line), line[max(0, len(line)-10):], err)
	}
	c.expect("+PONG\r\n")
}

func TestAccess(t *testing.T) {
	x := gatewaytest.New()
	x.Set("shop/echo", func(_ context.Context, call *gateway.Call) ([][]byte, error) { return call.Args, nil })
	uid := uint32(os.Getuid())
	access, err := gateway.ParseAccess([]string{fmt.Sprintf("uid:%d=shop", uid)})
	if err != nil {
		t.Fatal(err)
	}
	_, path := serve(t, respsock.Options{Executor: x, Access: access})
	c := dial(t, path)
	for range 2 { // the second time from memory
		c.send(command("FCALL", "shop/echo", "0", "1"))
		c.expect("$1\r\n1\r\n")
		c.send(command("FCALL", "acme/echo@3", "0", "1"))
		c.expectLine(fmt.Sprintf("-DENIED tenant: uid %d gid ", uid))
		c.send(command("FCALL", "acme", "0", "1"))
		c.expectLine("-INVALID")
	}
}

func TestManyNames(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	c := dial(t, path)
	for i := range 1000 {
		c.send(command("FCALL", fmt.Sprintf("acme/s%d", i), "0"))
		c.expect(fmt.Sprintf("-NOTFOUND script: there is no acme/s%d\r\n", i))
	}
	c.send(command("FCALL", "acme/"+strings.Repeat("s", 1000), "0"))
	c.expectLine("-INVALID")
}
