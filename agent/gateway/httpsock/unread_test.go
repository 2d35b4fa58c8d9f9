package httpsock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// deniesAtLength is a script that denies a request with a body of a megabyte.
func deniesAtLength(context.Context, *gateway.Call) ([][]byte, error) {
	return [][]byte{[]byte(`{"allow":false,"body":"` + strings.Repeat("x", 1<<20-100) + `"}`)}, nil
}

// lengthyAsks are requests for its decision. net/http serves the one with a body.
var lengthyAsks = map[string]string{
	"quick":   "GET /v1/decide/acme/long/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"as JSON": "GET /v1/decide/format=json/acme/long/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"open":    "GET /v1/decide/fail=open/acme/long/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"body":    "POST /v1/decide/acme/long/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1",
}

// headOf sends the request over a connection of its own, which stays open until the test ends, and reads
// the head of the answer, with a buffer of so many bytes.
func headOf(t *testing.T, path, request string, buffer int) *http.Response {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, request)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, buffer), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestUnreadDecisions: decisions that nobody reads hold no more than the budget. Those without room are
// denials all the same, also at a gateway that goes on without a decision.
func TestUnreadDecisions(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/long", deniesAtLength)
	for name, request := range lengthyAsks {
		_, path, client := serve(t, httpsock.Options{Executor: x, Budget: budget.New(16 << 20)})
		const most, conns = 16 << 20, 20
		before, refused := memtest.InUse(), 0
		for range conns {
			resp := headOf(t, path, request, 1)
			defer resp.Body.Close()
			const denial = `{"allow":false`
			begin := make([]byte, min(resp.ContentLength, int64(len(denial))))
			if _, err := io.ReadFull(resp.Body, begin); err != nil {
				t.Fatal(err)
			}
			if isJSON := string(begin) == denial; (resp.StatusCode == http.StatusOK) != (name == "as JSON") || isJSON != (name == "as JSON") {
				t.Fatalf("%s: %s with a body that begins with %q", name, resp.Status, begin)
			}
			if resp.ContentLength < 1<<10 {
				refused++
			}
		}
		if held := memtest.InUse() - before; held > most || refused == 0 {
			t.Errorf("%s: unread decisions hold %d bytes, want at most %d; %d were refused", name, held, most, refused)
		}
		if got := do(t, client, "GET", "/v1/decide/acme/none/", ""); got.status != http.StatusServiceUnavailable { // no decision
			t.Errorf("%s: another client got %+v", name, got)
		}
	}
}

// TestConnectionsForgetTheirAnswers: a connection that rests after a large answer holds nothing of it.
func TestConnectionsForgetTheirAnswers(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/long", deniesAtLength)
	x.Set("acme/headers", func(context.Context, *gateway.Call) ([][]byte, error) {
		return [][]byte{fmt.Appendf(nil, `{"headers":{"set":{"x-long":"%s"}}}`, strings.Repeat("x", 15<<10))}, nil
	})
	_, path, _ := serve(t, httpsock.Options{Executor: x})
	asks := []string{"GET /v1/decide/acme/headers/ HTTP/1.1\r\nHost: x\r\n\r\n"}
	for _, request := range lengthyAsks {
		asks = append(asks, request)
	}
	const conns, most = 20, 64 << 10 // both ends
	for _, request := range asks {
		before := memtest.InUse()
		for range conns {
			resp := headOf(t, path, request, 4<<10)
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); n != resp.ContentLength || err != nil {
				t.Fatalf("%q: %d bytes of %d: %v", request, n, resp.ContentLength, err)
			}
		}
		held := (memtest.InUse() - before) / conns
		for due := time.Now().Add(5 * time.Second); held > most && time.Now().Before(due); { // the last one has been read, and not yet forgotten
			held = (memtest.InUse() - before) / conns
		}
		if held > most {
			t.Errorf("%q: a connection at rest holds %d bytes, want at most %d", request, held, most)
		}
	}
}
