package netfault_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/loadtest/faults/netfault"
)

// echo is a server that answers each connection with its name, then with what it
// receives.
func echo(t *testing.T, name string) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if name != "" {
					_, _ = io.WriteString(conn, name)
				}
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func listen(t *testing.T, cfg netfault.Config) *netfault.Link {
	t.Helper()
	link, err := netfault.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return link
}

func dial(t *testing.T, link *netfault.Link) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads exactly the text.
func hear(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("heard %.40q, %v; want %.40q", got, err, text)
	}
}

// silent fails if anything arrives for a moment.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := conn.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want nothing", n, err)
	}
}

// ended fails unless the connection ends.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want the connection to end", n, err)
	}
}

func TestLinkPasses(t *testing.T) {
	link := listen(t, netfault.Config{Name: "a>b", Upstreams: []string{echo(t, "")}})
	conn := dial(t, link)
	large := strings.Repeat("0123456789", 50_000)
	go func() { _, _ = io.WriteString(conn, large) }()
	hear(t, conn, large)
}

func TestFaultsHoldUntilTheyAreMended(t *testing.T) {
	for _, fault := range []netfault.Fault{
		{Mode: netfault.Blackhole},
		{Mode: netfault.Delay, Late: time.Hour},
		{Mode: netfault.Throttle, BytesPerSecond: 1},
	} {
		t.Run(fault.String(), func(t *testing.T) {
			link := listen(t, netfault.Config{Upstreams: []string{echo(t, "")}})
			conn := dial(t, link)
			say(t, conn, "before")
			hear(t, conn, "before")
			link.Set(fault)
			text := strings.Repeat("meanwhile", 1000)
			say(t, conn, text)
			if fault.Mode != netfault.Throttle { // which lets a little through
				silent(t, conn)
			}
			link.Heal()
			hear(t, conn, text)
		})
	}
}

func TestCutEndsConnectionsAndRefusesOthers(t *testing.T) {
	link := listen(t, netfault.Config{Upstreams: []string{echo(t, "")}})
	before := dial(t, link)
	say(t, before, "x")
	hear(t, before, "x")
	link.Set(netfault.Fault{Mode: netfault.Cut})
	ended(t, before)
	var d net.Dialer // which may see the end of the connection before it has it
	if conn, err := d.DialContext(t.Context(), "tcp", link.Addr()); err == nil {
		ended(t, conn)
	}
	link.Heal()
	after := dial(t, link)
	say(t, after, "y")
	hear(t, after, "y")
}

func TestMuteLosesAnswers(t *testing.T) {
	heard := make(chan string, 1)
	link := listen(t, netfault.Config{
		Upstreams: []string{echo(t, "")},
		ToClient: func(client io.Writer, server io.Reader) error {
			b := make([]byte, 8)
			for {
				n, err := server.Read(b)
				if err != nil {
					return err
				}
				if string(b[:n]) == "y" { // the server got it, and answered
					heard <- "y"
				}
				if _, err := client.Write(b[:n]); err != nil {
					return err
				}
			}
		},
	})
	conn, idle := dial(t, link), dial(t, link)
	for _, c := range []net.Conn{conn, idle} {
		say(t, c, "x")
		hear(t, c, "x")
	}
	link.Set(netfault.Fault{Mode: netfault.Mute})
	say(t, conn, "y")
	<-heard
	silent(t, conn)
	link.Heal()
	ended(t, conn)
	say(t, idle, "z") // it lost nothing
	hear(t, idle, "z")
}

func TestBlackholeHoldsNewConnections(t *testing.T) {
	link := listen(t, netfault.Config{Upstreams: []string{echo(t, "hello")}})
	link.Set(netfault.Fault{Mode: netfault.Blackhole})
	conn := dial(t, link)
	silent(t, conn)
	link.Heal()
	hear(t, conn, "hello")
}

func TestFaultsOfOneSource(t *testing.T) {
	link := listen(t, netfault.Config{
		Upstreams: []string{echo(t, "")},
		Source: func(head []byte) (string, bool) {
			name, _, ok := bytes.Cut(head, []byte(":"))
			return string(name), ok
		},
	})
	link.SetFrom("b", netfault.Fault{Mode: netfault.Cut})
	a, b := dial(t, link), dial(t, link)
	say(t, a, "a:1")
	hear(t, a, "a:1")
	say(t, b, "b:1")
	ended(t, b)
	link.SetFrom("a", netfault.Fault{Mode: netfault.Cut})
	ended(t, a)
	link.SetFrom("b", netfault.Fault{})
	b = dial(t, link)
	say(t, b, "b:2")
	hear(t, b, "b:2")
}

func TestUpstreamsByTurnsAndPastTheDead(t *testing.T) {
	dead := porttest.Address(t)
	link := listen(t, netfault.Config{Upstreams: []string{echo(t, "1"), dead, echo(t, "2")}})
	seen := map[byte]int{}
	for range 6 {
		conn := dial(t, link)
		name := make([]byte, 1)
		if _, err := io.ReadFull(conn, name); err != nil {
			t.Fatal(err)
		}
		seen[name[0]]++
	}
	if seen['1'] == 0 || seen['2'] == 0 || seen['1']+seen['2'] != 6 {
		t.Errorf("answered: %v", seen)
	}
}

func TestToClient(t *testing.T) {
	link := listen(t, netfault.Config{
		Upstreams: []string{echo(t, "")},
		ToClient: func(client io.Writer, server io.Reader) error {
			b := make([]byte, 1)
			for {
				if _, err := io.ReadFull(server, b); err != nil {
					return err
				}
				if _, err := client.Write(bytes.ToUpper(b)); err != nil {
					return err
				}
			}
		},
	})
	conn := dial(t, link)
	say(t, conn, "abc")
	hear(t, conn, "ABC")
}

func TestCloseEndsWhatIsHeld(t *testing.T) {
	link, err := netfault.Listen(context.Background(), netfault.Config{Upstreams: []string{echo(t, "")}})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, link)
	say(t, conn, "x")
	hear(t, conn, "x")
	link.Set(netfault.Fault{Mode: netfault.Blackhole})
	say(t, conn, "y")
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
	ended(t, conn)
}
