package gateway_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
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
	} {
		access, err := gateway.ParseAccess(tt.rules)
		if err != nil {
			t.Fatal(err)
		}
		if access.Open() != (len(tt.rules) == 0) {
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

func TestLimitConnections(t *testing.T) {
	inner, err := gateway.Listen(filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	l := gateway.LimitConnections(inner, 1, func(c net.Conn) { fmt.Fprint(c, "full") })
	defer l.Close()
	dial := func() net.Conn {
		c, err := net.Dial("unix", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.PeerOf(first); err != nil {
		t.Errorf("an accepted connection's peer: %v", err)
	}
	refused := dial()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if text, err := io.ReadAll(refused); err != nil || string(text) != "full" {
		t.Errorf("the second connection got %q, %v", text, err)
	}
	first.Close()
	first.Close() // counts once
	dial()
	second := <-accepted
	defer second.Close()
	refused = dial()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	if text, err := io.ReadAll(refused); err != nil || string(text) != "full" {
		t.Errorf("the fourth connection got %q, %v", text, err)
	}
}
