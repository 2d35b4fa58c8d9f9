package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "a.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != gateway.SocketMode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := gateway.Listen(path); script.KindOf(err) != script.Conflict || !strings.Contains(err.Error(), path) {
		t.Errorf("a second listener: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is still there after Close")
	}
}

func TestListenTakesTheStaleSocketsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := gateway.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestListenKeepsOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.Listen(path); script.KindOf(err) != script.Invalid {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

func TestListenNamesAPathThatIsTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 100), "a.sock")
	_, err := gateway.Listen(path)
	if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("error %v", err)
	}
}

// pair returns both ends of a connection over a Unix socket.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := gateway.Listen(filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestPeerOf(t *testing.T) {
	_, server := pair(t)
	peer, err := gateway.PeerOf(server)
	if err != nil {
		t.Fatal(err)
	}
	want := gateway.Peer{PID: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if peer != want {
		t.Errorf("got %+v, want %+v", peer, want)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if peer, err := gateway.PeerOf(a); err == nil {
		t.Errorf("a pipe has the peer %+v", peer)
	}
}

func TestAccess(t *testing.T) {
	for _, tt := range []struct {
		rules   []string
		allowed string // tenants out of acme, shop, news that uid 1000, gid 33 may use
	}{
		{nil, "acme shop news"},
		{[]string{"uid:1000=acme,shop"}, "acme shop"},
		{[]string{"uid:1000= acme , shop "}, "acme shop"},
		{[]string{"gid:33=*"}, "acme shop news"},
		{[]string{"uid:1000=acme", "gid:33=news"}, "acme news"},
		{[]string{"uid:33=acme", "gid:1000=*"}, ""},
		{[]string{"uid:0=*"}, ""},
		{[]string{"uid:0=*", "*"}, "acme shop news"},
		{gateway.OwnRules(), ""},
	} {
		access, err := gateway.ParseAccess(tt.rules)
		if err != nil {
			t.Fatal(err)
		}
		if access.Open() != (len(tt.rules) == 0 || slices.Contains(tt.rules, gateway.Everybody)) {
			t.Errorf("%q: Open is %v", tt.rules, access.Open())
		}
		grant := access.GrantTo(gateway.Peer{UID: 1000, GID: 33})
		var allowed []string
		for _, tenant := range []string{"acme", "shop", "news"} {
			err := grant.Check(tenant + "/route@7")
			if err == nil {
				allowed = append(allowed, tenant)
			} else if script.KindOf(err) != script.Denied {
				t.Errorf("%q: %v", tt.rules, err)
			}
			if (err == nil) != grant.Allows(tenant) {
				t.Errorf("%q: Check and Allows do not agree on %s", tt.rules, tenant)
			}
		}
		if got := strings.Join(allowed, " "); got != tt.allowed {
			t.Errorf("%q allow %q, want %q", tt.rules, got, tt.allowed)
		}
	}
}

func TestAnUnknownPeerMayUseNothingOnceThereAreRules(t *testing.T) {
	access, err := gateway.ParseAccess([]string{"uid:0=*", fmt.Sprintf("uid:%d=*", os.Getuid())})
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if err := access.GrantOf(a).Check("acme/route"); script.KindOf(err) != script.Denied {
		t.Errorf("error %v", err)
	}
	if err := (gateway.Grant{}).Check("acme/route"); script.KindOf(err) != script.Denied {
		t.Errorf("the zero Grant: %v", err)
	}
	_, server := pair(t)
	if err := access.GrantOf(server).Check("acme/route"); err != nil {
		t.Errorf("a known peer: %v", err)
	}
}

func TestParseAccessRefuses(t *testing.T) {
	for _, rule := range []string{"", "uid:1000", "uid=acme", "user:root=acme", "uid:x=acme", "uid:-1=acme", "uid:4294967296=acme", "uid:1000=", "uid:1000=Acme", "uid:1=a,,b"} {
		if _, err := gateway.ParseAccess([]string{rule}); script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), "want uid:NUMBER") {
			t.Errorf("%q: %v", rule, err)
		}
	}
}

func FuzzParseAccess(f *testing.F) {
	for _, seed := range []string{"uid:1000=acme,shop", "gid:33=*", "uid:=", "=*", "gid:0=*,acme"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rule string) {
		access, err := gateway.ParseAccess([]string{rule})
		if err != nil {
			return
		}
		if access.Open() {
			t.Errorf("the rule %q lets everybody in", rule)
		}
	})
}

// entrance returns a socket's listener with the entry, and how to connect to it.
func entrance(t *testing.T, e gateway.Entry) (l net.Listener, dial func() net.Conn) {
	t.Helper()
	inner, err := gateway.Listen(filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l = e.Listen(inner)
	t.Cleanup(func() { l.Close() })
	return l, func() net.Conn {
		t.Helper()
		c, err := net.Dial("unix", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// TestEntry: two sockets share one bound.
func TestEntry(t *testing.T) {
	conns := budget.NewConnections(1, 1000)
	entry := gateway.Entry{Connections: conns, Bytes: 10, Refuse: func(c net.Conn) { fmt.Fprint(c, "full") }}
	first, dialFirst := entrance(t, entry)
	second, dialSecond := entrance(t, entry)
	dialFirst()
	held, err := first.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.PeerOf(held); err != nil {
		t.Errorf("an accepted connection's peer: %v", err)
	}
	refused := dialSecond()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := second.Accept()
		accepted <- c
	}()
	if text, err := io.ReadAll(refused); err != nil || string(text) != "full" {
		t.Errorf("the connection to the other socket got %q, %v", text, err)
	}
	held.Close()
	held.Close() // counts once
	dialSecond()
	last := <-accepted
	if conns.Open() != 1 || conns.Refused.Load() != 1 {
		t.Errorf("%d are open, and %d were refused", conns.Open(), conns.Refused.Load())
	}
	last.Close()
	if conns.Open() != 0 {
		t.Errorf("%d are open in the end", conns.Open())
	}
}

// TestLatest: what one host opens closes no connection of another.
func TestLatest(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := gateway.NewLatest(4).Listen(inner)
	defer l.Close()
	dial := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := dialer.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	quiet := dial("127.0.0.2")
	var flood []net.Conn
	for range 20 {
		flood = append(flood, dial("127.0.0.1"))
	}
	for _, c := range flood[:len(flood)-3] {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an old one: %v", err)
		}
	}
	for _, c := range append(flood[len(flood)-3:], quiet) {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("one that is to stay: %v", err)
		}
	}
}
