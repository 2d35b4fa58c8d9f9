package httpsock_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
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
