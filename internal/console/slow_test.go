package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// TestSlowRequests: nobody holds a connection by sending a request that never ends, with a session or without.
func TestSlowRequests(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget(), func(cfg *console.Config, _ *console.Site) { cfg.BodyTimeout = 50 * time.Millisecond })
	cookie := cookieOf(f, f.signedIn())
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
		for _, body := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n400\r\n{"} {
			conn, err := net.Dial("tcp", f.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%sHost: %s\r\n%s", head, f.Addr(), body)
			_ = conn.SetReadDeadline(time.Now().Add(patience / 6))
			if _, err := io.Copy(io.Discard, bufio.NewReader(conn)); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%q: the console waits for the rest", head+body)
			}
		}
	}
}

// TestSlowRequestsOverHTTP2: the same of requests that share a connection. The others on it go on.
func TestSlowRequestsOverHTTP2(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget(), func(cfg *console.Config, _ *console.Site) { cfg.BodyTimeout = 50 * time.Millisecond })
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	browser, stranger := &http.Client{Transport: transport, Jar: f.signedIn().Jar}, &http.Client{Transport: transport}
	stream := f.following(browser)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for path, kind := range map[string]string{
		"/none": "text/plain", "/session": "application/json", service + "List": "application/json", service + "WatchStatus": "application/connect+json",
	} {
		for _, client := range []*http.Client{browser, stranger} {
			body, rest := io.Pipe()
			defer rest.Close()
			go func() { _, _ = rest.Write([]byte("{")) }()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL()+path, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", kind)
			resp, err := client.Do(r)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if _, err := io.Copy(io.Discard, resp.Body); resp.ProtoMajor != 2 || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, by %s: %v", path, resp.Proto, err)
			}
			_ = resp.Body.Close()
		}
	}
	publish := &registryv1.PublishRequest{Tenant: "acme", Name: "x", Author: "a", Source: []byte("function handle() return 1 end")}
	if _, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, browser, "Publish", publish); err != nil {
		t.Error("a call on the same connection:", err)
	}
	if !stream.Receive() {
		t.Error("a stream on the same connection:", stream.Err())
	}
}
