package console_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// TestSlowRequests: nobody holds a connection by sending a request that never ends, with a session or without.
func TestSlowRequests(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget(), func(cfg *console.Config, _ *console.Site) { cfg.BodyTimeout = time.Second })
	cookie := cookieOf(f, f.signedIn())
	var all sync.WaitGroup
	for _, head := range []string{
		"POST /none HTTP/1.1\r\n",
		"POST /session HTTP/1.1\r\nContent-Type: application/json\r\n",
		"POST /session HTTP/1.1\r\nContent-Type: text/plain\r\n",
		"DELETE /session HTTP/1.1\r\n",
		"GET / HTTP/1.1\r\n",
		"GET /session HTTP/1.1\r\n",
		"POST " + service + "List HTTP/1.1\r\nContent-Type: application/json\r\n",
		"POST " + service + "List HTTP/1.1\r\nContent-Type: application/json\r\nCookie: " + cookie.String() + "\r\n",
		"POST " + service + "WatchStatus HTTP/1.1\r\nContent-Type: application/connect+json\r\nCookie: " + cookie.String() + "\r\n",
	} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\n{", "Content-Length: 1000\r\n\r\n{\"code\": \"AAAA\"}", "Transfer-Encoding: chunked\r\n\r\n400\r\n{"} {
			all.Go(func() {
				conn, err := net.Dial("tcp", f.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "%sHost: %s\r\n%s", head, f.Addr(), body)
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.Copy(io.Discard, bufio.NewReader(conn)); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%q: the console waits for the rest", head+body)
				}
			})
		}
	}
	all.Wait()
}

// TestSlowRequestsOverHTTP2: the same of requests that share a connection. The others on it go on.
func TestSlowRequestsOverHTTP2(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget(), func(cfg *console.Config, _ *console.Site) { cfg.BodyTimeout = time.Second })
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	browser, stranger := &http.Client{Transport: transport, Jar: f.signedIn().Jar}, &http.Client{Transport: transport}
	stream := f.following(browser)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for path, kind := range map[string]string{
		"/none": "text/plain", "/session": "application/json", service + "List": "application/json", service + "WatchStatus": "application/connect+json",
	} {
		for _, client := range []*http.Client{browser, stranger} {
			all.Go(func() {
				body, rest := io.Pipe()
				defer rest.Close()
				go func() { _, _ = rest.Write([]byte("{")) }()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+path, body)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", kind)
				resp, err := client.Do(r)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				defer resp.Body.Close()
				if _, err := io.Copy(io.Discard, resp.Body); resp.ProtoMajor != 2 || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, by %s: %v", path, resp.Proto, err)
				}
			})
		}
	}
	all.Wait()
	publish := &registryv1.PublishRequest{Tenant: "acme", Name: "x", Author: "a", Source: []byte("function handle() return 1 end")}
	if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, browser, "Publish", publish); err != nil {
		t.Error("a call on the same connection:", err)
	}
	if !stream.Receive() {
		t.Error("a stream on the same connection:", stream.Err())
	}
}

const largest = 4<<20 + 5 // bytes of a request

// TestMemory: with all its sessions, a caller holds at most half of the memory for requests and answers. Others go on.
func TestMemory(t *testing.T) {
	const (
		held = 3
		ann  = "a-token-of-ann-that-is-long-enough"
		bob  = "a-token-of-bob-that-is-long-enough"
	)
	policy := fmt.Sprintf("subjects:\n- {name: ann, tokens: ['sha256:%x'], grants: [{roles: [publish], tenants: [acme]}]}\n- {name: bob, tokens: ['sha256:%x'], grants: [{roles: [publish], tenants: [acme]}]}\n", sha256.Sum256([]byte(ann)), sha256.Sum256([]byte(bob)))
	f := start(t, startRegistry(t, withPolicy(t, policy)).RegistryTarget(), func(cfg *console.Config, _ *console.Site) {
		cfg.BodyTimeout, cfg.Memory = 10*patience, 2*(held*2*largest+32)
	})
	in := func(token string) *http.Client {
		browser := f.browser()
		browser.Timeout = patience
		if resp := f.post(browser, "/session", `{"token":"`+token+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // post closes it
			t.Fatalf("sign in: %s", resp.Status)
		}
		return browser
	}
	other, browser := in(bob), in(ann)
	publish := &registryv1.PublishRequest{Tenant: "acme", Name: "x", Author: "a", Source: []byte("function handle() return 1 end")}
	if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, other, "Publish", publish); err != nil {
		t.Fatal(err)
	}
	conns := f.endless(func() *http.Cookie { return cookieOf(f, in(ann)) }, held)
	for path, body := range map[string]string{"List": "{}", "WatchStatus": "\x00\x00\x00\x00\x02{}"} {
		kind := map[bool]string{true: "application/json", false: "application/connect+json"}[path == "List"]
		if _, text := f.send(browser, http.MethodPost, service+path, body, "Content-Type", kind); !strings.Contains(text, "unread replies") { //nolint:bodyclose // send closes it
			t.Errorf("%s, an answer without room: %s", path, text)
		}
	}
	list := func(browser *http.Client) error {
		_, err := call[registryv1.ListRequest, registryv1.ListResponse](f, browser, "List", &registryv1.ListRequest{})
		return err
	}
	if err := list(other); err != nil {
		t.Error("another caller:", err)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	err := list(browser)
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); err = list(browser) {
		f.clock.move(time.Second / 50) // as often as a session can call
	}
	if err != nil {
		t.Error("after the requests have ended:", err)
	}
}

// endless begins requests without an end in several sessions. It returns once all but those that the console has room for are refused.
func (f *fixture) endless(session func() *http.Cookie, held int) (conns []net.Conn) {
	f.t.Helper()
	const sessions, each = 4, 3
	answers := make(chan string, sessions*each)
	for range sessions {
		cookie := session()
		for range each {
			conn, err := net.Dial("tcp", f.Addr().String())
			if err != nil {
				f.t.Fatal(err)
			}
			f.t.Cleanup(func() { _ = conn.Close() })
			conns = append(conns, conn)
			fmt.Fprintf(conn, "POST %sList HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nCookie: %s\r\nContent-Length: %d\r\n\r\n{", service, f.Addr(), cookie, largest)
			go func() {
				text, _ := io.ReadAll(conn) // until the console, or the test, closes it
				answers <- string(text)
			}()
		}
	}
	for i := range sessions*each - held {
		select {
		case text := <-answers:
			if !strings.Contains(text, "503") || !strings.Contains(text, "unfinished requests") {
				f.t.Errorf("a request without an end: %s", text)
			}
		case <-time.After(patience):
			f.t.Fatalf("%d requests without an end are refused", i)
		}
	}
	return conns
}
