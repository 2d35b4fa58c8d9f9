package httpsock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestTruncatedRequests cuts a request after each byte: what did not come whole
// is not run, and the connection is closed, with an error or without a word.
func TestTruncatedRequests(t *testing.T) {
	x := gatewaytest.New()
	var calls atomic.Int64
	x.Set("acme/count", func(context.Context, *gateway.Call) ([][]byte, error) {
		calls.Add(1)
		return nil, nil
	})
	_, path, client := serve(t, httpsock.Options{Executor: x})
	const head = "POST /v1/execute/acme/count HTTP/1.1\r\nHost: x\r\n"
	for name, whole := range map[string]string{
		"with a length": head + "Content-Length: 7\r\n\r\n{\"a\":1}",
		"in chunks":     head + "Transfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n",
		"several":       head + "Content-Type: " + httpsock.ArgsContentType + "\r\nContent-Length: 12\r\n\r\n{\"args\":[1]}",
	} {
		t.Run(name, func(t *testing.T) {
			for n := range len(whole) {
				c, err := net.Dial("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				if _, err := io.WriteString(c, whole[:n]); err != nil {
					t.Fatal(err)
				}
				_ = c.(*net.UnixConn).CloseWrite()
				all, err := io.ReadAll(c)
				if err != nil && !strings.Contains(err.Error(), "reset") {
					t.Errorf("after %d of %d bytes: %v", n, len(whole), err)
				}
				if len(all) > 0 && !strings.HasPrefix(string(all), "HTTP/1.1 400 ") {
					t.Errorf("after %d of %d bytes: got %.200q", n, len(whole), all)
				}
				c.Close()
			}
			if n := calls.Load(); n != 0 {
				t.Errorf("%d calls ran that did not come whole", n)
			}
			if got := do(t, client, "POST", "/v1/execute/acme/echo", "1"); got.body != "1" {
				t.Errorf("another client got %+v", got)
			}
		})
	}
}

// TestBadArgsAreToldInPlainWords: the caller need not know that the agent is
// written in Go.
func TestBadArgsAreToldInPlainWords(t *testing.T) {
	_, _, client := serve(t, httpsock.Options{})
	const want = `the body must be a JSON object {\"args\":[…]}`
	for body, more := range map[string]string{
		`["a",2]`:              "",
		`{"args":1}`:           "",
		`{"args":[1],"arg":2}`: " and nothing beside args",
		`{"args":[x]}`:         ": it is not JSON at byte 10",
		`{"args":[1`:           ": it ends too early",
		``:                     ": it ends too early",
		`{"args":[1]} 2`:       ": there is something after it",
	} {
		got := do(t, client, "POST", "/v1/execute/acme/echo", body, "Content-Type", httpsock.ArgsContentType)
		if got.status != 400 || !strings.Contains(got.body, fmt.Sprintf(`"kind":"INVALID","field":"body","message":"%s%s`, want, more)) ||
			strings.Contains(got.body, "Go ") || strings.Contains(got.body, "json:") {
			t.Errorf("%s got %d %s", body, got.status, got.body)
		}
	}
}

// hold begins requests on connections of their own, with all but the last byte of a body of a
// megabyte, and returns the connections.
func hold(t *testing.T, path string, requests int) (conns []net.Conn) {
	t.Helper()
	const size = 1 << 20
	body := make([]byte, size-1)
	for range requests {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = fmt.Fprintf(c, "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
		_, _ = c.Write(body) // it fails if the server gave the request up
		conns = append(conns, c)
	}
	return conns
}

// TestHeadsOfShortLines: a head of thousands of lines ends its connection, since each line takes
// hundreds of bytes, even if it has five.
func TestHeadsOfShortLines(t *testing.T) {
	var lines strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&lines, "%c%c%c:\n", 'a'+i%26, 'a'+i/26%26, 'a'+i/26/26)
	}
	const call = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\n"
	const whole = call + "Content-Length: 1\r\n\r\n1"
	_, path, _ := serve(t, httpsock.Options{})
	few := lines.String()[:5*700] // net/http can have them before the answer to a call
	for name, sent := range map[string]string{
		"first":             call + lines.String(),
		"after another":     whole + call + lines.String(),
		"after empty lines": whole + "\r\n\r\n" + call + lines.String(),
		"with another":      whole + call + few,
		"with a long one":   call + "Content-Length: 3000\r\n\r\n" + strings.Repeat("1", 3000) + call + few,
		"with chunks":       call + "Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n" + call + few,
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, sent) // it fails if the connection has ended by then
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection does not end: %v", name, err)
		}
	}
}

// statusOf reads an answer, and returns its status.
func statusOf(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestLinesOfBodies: lines count in heads alone, however the bytes of requests come.
func TestLinesOfBodies(t *testing.T) {
	_, path, _ := serve(t, httpsock.Options{})
	body := strings.Repeat("\n", 1000) + "1"
	one := fmt.Sprintf("POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s",
		len(body), strings.Repeat("X-Field: 1\r\n", 100), body)
	for _, piece := range []int{1 << 20, 4096, 100, 7} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		const requests = 5
		sent := make(chan error, 1)
		go func() {
			var err error
			for all := strings.Repeat(one, requests); all != "" && err == nil; {
				n := min(piece, len(all))
				_, err = io.WriteString(c, all[:n])
				all = all[n:]
			}
			sent <- err
		}()
		r := bufio.NewReader(c)
		for i := range requests {
			if got := statusOf(t, r); got != http.StatusOK {
				t.Fatalf("in pieces of %d: request %d got %d", piece, i, got)
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

// TestSmallBodiesAfterLargeOnes: a call that waits for its body holds nothing of what others
// needed, which its caller is not charged for.
func TestSmallBodiesAfterLargeOnes(t *testing.T) {
	const conns, size, most = 100, 60_000, 72 << 10 // both ends
	x := gatewaytest.New()
	var begun sync.WaitGroup
	begun.Add(conns)
	x.Set("acme/together", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		begun.Done()
		begun.Wait()
		return [][]byte{call.Args[0], []byte("1")}, nil
	})
	_, path, _ := serve(t, httpsock.Options{Executor: x})
	before := memtest.InUse()
	body := `"` + strings.Repeat("x", size) + `"`
	var open []net.Conn
	for range conns {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprintf(c, "POST /v1/execute/acme/together HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	for _, c := range open {
		r := bufio.NewReader(c)
		if got := statusOf(t, r); got != http.StatusOK {
			t.Fatal(got)
		}
		_, _ = io.WriteString(c, "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
		if got := statusOf(t, r); got != http.StatusContinue {
			t.Fatal(got) // the server reads the body by then
		}
	}
	if held := (memtest.InUse() - before) / conns; held > most {
		t.Errorf("a call holds %d bytes, want at most %d", held, most)
	}
}

// TestUnfinishedBodies: bodies that have not fully arrived hold no more than the budget; the
// oldest make room, and learn that.
func TestUnfinishedBodies(t *testing.T) {
	const most = 24 << 20
	_, path, client := serve(t, httpsock.Options{Budget: budget.New(16 << 20)})
	before := memtest.InUse()
	conns := hold(t, path, 100)
	held := memtest.InUse() - before
	t.Logf("unfinished bodies hold %d bytes", held)
	if held > most {
		t.Errorf("unfinished bodies hold %d bytes, want at most %d", held, most)
	}
	if got := do(t, client, "POST", "/v1/execute/acme/echo", `"`+strings.Repeat("x", 100_000)+`"`); got.status != 200 {
		t.Errorf("another client got %d %.200s", got.status, got.body)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conns[0], answer); err != nil || string(answer) != "HTTP/1.1 503" {
		t.Errorf("the oldest got %q, %v", answer, err)
	}
}

// TestUnreadAnswers: answers that nobody reads hold no more than the budget.
func TestUnreadAnswers(t *testing.T) {
	x := gatewaytest.New()
	big := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	x.Set("acme/big", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{big}, nil })
	x.Set("acme/several", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{big, []byte("1")}, nil })
	for _, name := range []string{"big", "several"} {
		_, path, client := serve(t, httpsock.Options{Executor: x, Budget: budget.New(16 << 20)})
		unreadAnswers(t, path, "POST /v1/execute/acme/"+name+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		if got := do(t, client, "POST", "/v1/execute/acme/echo", "1"); got.body != "1" {
			t.Errorf("another client got %+v", got)
		}
	}
}

// unreadAnswers asks for 50 answers that it does not read. They hold no more than the budget of
// 16 MiB with what the server needs for its work, so some are refused.
func unreadAnswers(t *testing.T, path, request string) {
	t.Helper()
	const most = 16 << 20
	before := memtest.InUse()
	refused := 0
	for range 50 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, request)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		if string(answer) == "HTTP/1.1 503" {
			refused++
		}
	}
	held := memtest.InUse() - before
	t.Logf("unread answers hold %d bytes; %d were refused", held, refused)
	if held > most || refused == 0 {
		t.Errorf("unread answers hold %d bytes, want at most %d; %d were refused", held, most, refused)
	}
}

// listing is an executor with many scripts, whose lists a test can stop.
type listing struct {
	*gatewaytest.Executor
	scripts []gateway.Script
	lists   func()
}

func (l *listing) List() []gateway.Script {
	l.lists()
	return l.scripts
}

func newListing(lists func()) *listing {
	l := &listing{Executor: gatewaytest.New(), lists: lists}
	for i := range 5_000 {
		l.scripts = append(l.scripts, gateway.Script{Name: script.Name{Tenant: "acme", Script: fmt.Sprintf("script-%d", i)}, Enabled: true})
	}
	return l
}

// asAnother returns a client of the server that is another caller than those of its Unix socket.
func asAnother(t *testing.T, s *httpsock.Server) *http.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// TestListsOfOneCaller: one is made at a time, and does not hold up those of others.
func TestListsOfOneCaller(t *testing.T) {
	var held atomic.Bool
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	x := newListing(func() {
		if held.CompareAndSwap(true, false) {
			begun <- struct{}{}
			<-goOn
		}
	})
	s, path, client := serve(t, httpsock.Options{Executor: x})
	other := asAnother(t, s)
	ask := func() net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = io.WriteString(c, "GET /v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n")
		return c
	}
	held.Store(true)
	first := ask()
	<-begun
	waiting := []net.Conn{ask(), ask()}
	if got := do(t, other, "GET", "/v1/scripts", ""); got.status != 200 || !strings.Contains(got.body, "script-4999") {
		t.Errorf("another caller got %d %.100s", got.status, got.body)
	}
	close(goOn)
	for _, c := range append(waiting, first) {
		answer := make([]byte, 12)
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 200" {
			t.Errorf("a list that waited: %q, %v", answer, err)
		}
	}
	if got := do(t, client, "GET", "/v1/scripts?tenant=acme", ""); got.status != 200 {
		t.Errorf("the next list: %d %.100s", got.status, got.body)
	}
}

// TestUnreadLists: lists that nobody reads hold no more than the budget, and another caller
// gets its own.
func TestUnreadLists(t *testing.T) {
	s, path, _ := serve(t, httpsock.Options{Executor: newListing(func() {}), Budget: budget.New(16 << 20)})
	other := asAnother(t, s)
	unreadAnswers(t, path, "GET /v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := do(t, other, "GET", "/v1/scripts", ""); got.status != 200 {
		t.Errorf("another caller got %d %.200s", got.status, got.body)
	}
}

// TestBodiesGrowAsJSON: the caller is charged for what a body takes as an argument, which can be six
// times as much as the body.
func TestBodiesGrowAsJSON(t *testing.T) {
	x := gatewaytest.New()
	running, finish := make(chan int), make(chan struct{})
	x.Set("acme/d", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		running <- len(call.Args[0])
		<-finish
		return nil, nil
	})
	_, _, client := serve(t, httpsock.Options{Executor: x, Budget: budget.New(16 << 20)})
	body := strings.Repeat("\x01", 1<<20)
	first := make(chan int, 1)
	go func() {
		first <- do(t, client, "POST", "/v1/decide/acme/d/", body).status
	}()
	if n := <-running; n < 6<<20 {
		t.Errorf("the argument has %d bytes", n)
	}
	second := make(chan int, 1)
	go func() {
		second <- do(t, client, "POST", "/v1/decide/acme/d/", body).status
	}()
	select {
	case <-running:
		t.Error("a second one runs, which the caller's half of the budget has no room for")
		finish <- struct{}{}
	case status := <-second:
		if status != http.StatusServiceUnavailable {
			t.Errorf("the second one: %d", status)
		}
	}
	finish <- struct{}{}
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first one: %d", status)
	}
}
