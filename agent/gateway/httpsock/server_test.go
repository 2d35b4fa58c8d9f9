package httpsock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// serve starts a server; it returns it, its socket's path, and a client of it.
func serve(tb testing.TB, opts httpsock.Options) (*httpsock.Server, string, *http.Client) {
	tb.Helper()
	if opts.Executor == nil {
		opts.Executor = gatewaytest.New()
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	path := filepath.Join(tb.TempDir(), "http.sock")
	l, err := gateway.Listen(path)
	if err != nil {
		tb.Fatal(err)
	}
	s := httpsock.New(opts)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			tb.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, httpsock.ErrClosed) {
			tb.Errorf("Serve returned %v", err)
		}
	})
	return s, path, &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func do(t *testing.T, client *http.Client, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

func TestExecute(t *testing.T) {
	_, _, client := serve(t, httpsock.Options{})
	for _, tt := range []struct {
		name, path, body string
		header           []string
		want             string
		results          string
	}{
		{name: "one argument", path: "acme/echo", body: `{"a": 1}`, want: `{"a": 1}`},
		{name: "as curl -d sends it", path: "acme/echo", body: `[]`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, want: `[]`},
		{name: "with a charset", path: "acme/echo", body: `[]`, header: []string{"Content-Type", "application/json; charset=utf-8"}, want: `[]`},
		{name: "no argument", path: "acme/echo", want: "null", results: "0"},
		{name: "no result", path: "acme/nothing", body: "1", want: "null", results: "0"},
		{name: "several", path: "acme/echo", body: `{"args":[1, {"b":2}, null]}`, header: []string{"Content-Type", httpsock.ArgsContentType}, want: `[1,{"b":2},null]`, results: "3"},
		{name: "trace", path: "acme/trace", header: []string{"traceparent", "00-ab"}, want: `"00-ab"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, client, "POST", "/v1/execute/"+tt.path, tt.body, tt.header...)
			if got.status != 200 || got.body != tt.want || got.header.Get(httpsock.HeaderResults) != tt.results {
				t.Errorf("got %d %q %v", got.status, got.body, got.header)
			}
			name, _ := script.ParseName(tt.path)
			for header, want := range map[string]string{
				"Content-Type": "application/json", "Scriptorium-Version": "7", "Scriptorium-Staleness": "0.412",
				"Scriptorium-Digest": gatewaytest.DigestOf(name).String(),
			} {
				if got.header.Get(header) != want {
					t.Errorf("%s is %q, want %q", header, got.header.Get(header), want)
				}
			}
		})
	}
}

func TestOneVersion(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/echo@3", func(context.Context, *gateway.Call) ([][]byte, error) { return [][]byte{[]byte("3")}, nil })
	_, _, client := serve(t, httpsock.Options{Executor: x})
	got := do(t, client, "POST", "/v1/execute/acme/echo@3", "1")
	if got.status != 200 || got.body != "3" || got.header.Get("Scriptorium-Version") != "3" {
		t.Errorf("got %+v", got)
	}
	for _, path := range []string{"/v1/execute/acme/echo", "/v1/decide/acme/echo/cart"} { // a header chooses none
		got = do(t, client, "POST", path, "1", "Scriptorium-Version", "3")
		if got.header.Get("Scriptorium-Version") != "7" {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

func TestErrors(t *testing.T) {
	_, _, client := serve(t, httpsock.Options{})
	args := []string{"Content-Type", httpsock.ArgsContentType}
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string // in the body
	}{
		{path: "acme/kind", body: `"NOTFOUND"`, status: 404, want: `{"error":{"kind":"NOTFOUND","message":"as asked for"}}`},
		{path: "acme/kind", body: `"DISABLED"`, status: 403, want: `"kind":"DISABLED"`},
		{path: "acme/kind", body: `"TIMEOUT"`, status: 504, want: `"kind":"TIMEOUT"`},
		{path: "acme/kind", body: `"LIMIT"`, status: 507, want: `"kind":"LIMIT"`},
		{path: "acme/kind", body: `"OVERLOADED"`, status: 503, want: `"kind":"OVERLOADED"`},
		{path: "acme/kind", body: `"DENIED"`, status: 403, want: `"kind":"DENIED"`},
		{path: "acme/kind", body: `"INVALID"`, status: 400, want: `"kind":"INVALID"`},
		{path: "acme/kind", body: `"UNAVAILABLE"`, status: 503, want: `"kind":"UNAVAILABLE"`},
		{path: "acme/kind", body: `"INTERNAL"`, status: 500, want: `"kind":"INTERNAL"`},
		{path: "acme/fail", status: 500, want: `{"error":{"kind":"SCRIPT","message":"it broke\r\nbadly","line":3}}`},
		{path: "acme/panic", status: 500, want: `"kind":"INTERNAL"`},
		{path: "acme/none", status: 404, want: `{"error":{"kind":"NOTFOUND","field":"script","message":"there is no acme/none"}}`},
		{path: "Acme/echo", status: 400, want: `"field":"tenant"`},
		{path: "acme/echo@x", status: 400, want: `"field":"version"`},
		{path: "acme/wait", header: []string{"Scriptorium-Timeout", "5ms"}, status: 504, want: `"kind":"TIMEOUT"`},
		{path: "acme/wait", header: []string{"Scriptorium-Timeout", "soon"}, status: 400, want: `"field":"Scriptorium-Timeout"`},
		{path: "acme/echo", header: []string{"Content-Type", "text/xml"}, status: 415, want: `"kind":"INVALID","field":"Content-Type"`},
		{path: "acme/echo", body: strings.Repeat(" ", 1<<20+1), status: 413, want: `"kind":"INVALID","field":"body"`},
		{path: "acme/echo", body: `[1]`, header: args, status: 400, want: `"field":"body"`},
		{path: "acme/echo", body: `{"args":[1]}x`, header: args, status: 400, want: `"field":"body"`},
		{path: "acme/echo", body: `{"args":[1],"arg":2}`, header: args, status: 400, want: `"field":"body"`},
		{path: "acme/echo", body: `{"args":[` + strings.Repeat("1,", 1024) + `1]}`, header: args, status: 400, want: `"field":"args"`},
		{method: "GET", path: "acme/echo", status: 405, want: `"kind":"INVALID","field":"method"`},
		{path: "acme/echo/more", status: 404, want: `"kind":"NOTFOUND","field":"path"`},
	} {
		t.Run(fmt.Sprintf("%s %.60s", tt.path, tt.body), func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "POST"
			}
			got := do(t, client, method, "/v1/execute/"+tt.path, tt.body, tt.header...)
			if got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("got %d %.300s, want %d with %s", got.status, got.body, tt.status, tt.want)
			}
			if !json.Valid([]byte(got.body)) || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("the error is not JSON: %q, %v", got.body, got.header)
			}
		})
	}
}

func TestAccess(t *testing.T) {
	x := gatewaytest.New()
	x.Set("shop/cart", func(context.Context, *gateway.Call) ([][]byte, error) { return nil, nil })
	access, err := gateway.ParseAccess([]string{fmt.Sprintf("uid:%d=shop", os.Getuid())})
	if err != nil {
		t.Fatal(err)
	}
	_, _, client := serve(t, httpsock.Options{Executor: x, Access: access})
	if got := do(t, client, "POST", "/v1/execute/shop/cart", ""); got.status != 200 {
		t.Errorf("got %+v", got)
	}
	for _, path := range []string{"/v1/execute/acme/echo", "/v1/execute/acme/echo@7"} {
		if got := do(t, client, "POST", path, ""); got.status != 403 || !strings.Contains(got.body, `"kind":"DENIED"`) {
			t.Errorf("got %+v", got)
		}
	}
	if got := do(t, client, "GET", "/v1/scripts", ""); !strings.Contains(got.body, "cart") || strings.Contains(got.body, "acme") {
		t.Errorf("got %+v", got)
	}
	if got := do(t, client, "GET", "/v1/scripts?tenant=acme", ""); got.status != 403 {
		t.Errorf("got %+v", got)
	}
}

func TestList(t *testing.T) {
	_, _, client := serve(t, httpsock.Options{})
	got := do(t, client, "GET", "/v1/scripts?tenant=acme&event=http-request", "")
	var list struct {
		Revision  int
		Staleness float64
		Scripts   []struct {
			Tenant, Name, Digest, Event string
			Version                     int
			Enabled                     bool
		}
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil {
		t.Fatal(err)
	}
	if list.Revision != 42 || list.Staleness != 0.412 || len(list.Scripts) == 0 {
		t.Fatalf("got %s", got.body)
	}
	if s := list.Scripts[0]; s.Tenant != "acme" || s.Name != "echo" || s.Version != 7 || !s.Enabled || !strings.HasPrefix(s.Digest, "sha256:") {
		t.Errorf("got %+v", s)
	}
	if got := do(t, client, "GET", "/v1/scripts?event=nothing", ""); !strings.Contains(got.body, `"scripts":[]`) {
		t.Errorf("got %s", got.body)
	}
}

func TestProbesAndMetrics(t *testing.T) {
	ready := make(chan error, 1)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "a"}, func() float64 { return 1 }))
	_, _, client := serve(t, httpsock.Options{
		Ready:   func() error { return <-ready },
		Metrics: func(gateway.Grant) (prometheus.Gatherer, error) { return metrics, nil },
	})
	if got := do(t, client, "GET", "/healthz", ""); got.status != 200 || got.body != `{"alive":true}`+"\n" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %+v", got)
	}
	if got := do(t, client, "GET", "/metrics", ""); !strings.Contains(got.body, "\na 1\n") {
		t.Errorf("got %+v", got)
	}
	ready <- errors.New("no snapshot yet")
	if got := do(t, client, "GET", "/readyz", ""); got.status != 503 || got.body != `{"ready":false,"reason":"no snapshot yet"}`+"\n" {
		t.Errorf("got %+v", got)
	}
	ready <- nil
	if got := do(t, client, "GET", "/readyz", ""); got.status != 200 || got.body != `{"ready":true}`+"\n" {
		t.Errorf("got %+v", got)
	}
}

// TestBadFrames: whatever a stranger writes ends in an error or a closed
// connection, and others notice nothing.
func TestBadFrames(t *testing.T) {
	_, path, client := serve(t, httpsock.Options{ReadTimeout: 100 * time.Millisecond})
	const execute = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\n"
	for name, in := range map[string]string{
		"garbage":               "\x00\xff\x13 garbage\r\n\r\n",
		"half a request line":   "POST /v1/ex",
		"half a header":         execute + "Conte",
		"half a body":           execute + "Content-Length: 100\r\n\r\n{",
		"a bad length":          execute + "Content-Length: -1\r\n\r\n",
		"a bad chunk":           execute + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"endless headers":       execute + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 100),
		"the wrong protocol":    "*1\r\n$4\r\nPING\r\n",
		"nothing, and a close":  "",
		"a body over the limit": execute + "Content-Length: 2000000\r\n\r\n" + strings.Repeat("1", 2000000),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(conn, in)
			all, err := io.ReadAll(conn)
			if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
				t.Error("the connection was not closed")
			}
			if len(all) > 0 && !strings.HasPrefix(string(all), "HTTP/1.1 4") && !strings.HasPrefix(string(all), "HTTP/1.1 5") {
				t.Errorf("got %.200q", all)
			}
			unimpressed(t, client)
		})
	}
}

// unimpressed checks that another client is answered, on a server with a short timeout: a
// busy machine may take longer over a request, which is then made anew.
func unimpressed(t *testing.T, client *http.Client) {
	t.Helper()
	for {
		resp, err := client.Post("http://agent/v1/execute/acme/echo", "application/json", strings.NewReader("1"))
		var body []byte
		if err == nil {
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
			client.CloseIdleConnections()
		case err != nil || string(body) != "1":
			t.Errorf("another client got %s, %v", body, err)
			return
		default:
			return
		}
	}
}

func TestAClientThatNeverReadsIsClosed(t *testing.T) {
	_, path, client := serve(t, httpsock.Options{WriteTimeout: 100 * time.Millisecond})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	body := `"` + strings.Repeat("x", 1<<19) + `"`
	request := fmt.Sprintf("POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for {
		if _, err = io.WriteString(conn, request); err != nil {
			break
		}
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		t.Error("the connection was not closed")
	}
	unimpressed(t, client)
}

func TestTenThousandIdleConnections(t *testing.T) {
	_, path, client := serve(t, httpsock.Options{Connections: budget.NewConnections(20_000, 1<<30)})
	held := gatewaytest.HoldIdle(t, path, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n")
	const most = 64 << 10
	if held > most {
		t.Errorf("an idle connection holds %d bytes, want at most %d", held, most)
	}
	if got := do(t, client, "POST", "/v1/execute/acme/echo", "1"); got.body != "1" {
		t.Errorf("another client got %+v", got)
	}
}

// TestTooManyConnections: they can ask how the agent is, and nothing else, as often as others
// open more.
func TestTooManyConnections(t *testing.T) {
	_, path, client := serve(t, httpsock.Options{Connections: budget.NewConnections(1, 1<<30)})
	if got := do(t, client, "POST", "/v1/execute/acme/echo", "1"); got.body != "1" { // and keeps its connection
		t.Fatalf("got %+v", got)
	}
	silent := make([]net.Conn, 200)
	for i := range silent {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent[i] = conn
	}
	for request, want := range map[string]string{
		"GET /healthz":               `200 {"alive":true}`,
		"GET /readyz":                `200 {"ready":true}`,
		"GET /v1/scripts":            `503 {"error":{"kind":"OVERLOADED"`,
		"POST /v1/execute/acme/echo": `503 {"error":{"kind":"OVERLOADED"`,
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", request)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", request, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		conn.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest: %v", err)
	}
	if got := do(t, client, "POST", "/v1/execute/acme/echo", "1"); got.body != "1" {
		t.Errorf("who had a connection got %+v", got)
	}
}

func TestShutdownFinishesCallsInFlight(t *testing.T) {
	x := gatewaytest.New()
	begun, finish := make(chan struct{}), make(chan struct{})
	x.Set("acme/slow", func(context.Context, *gateway.Call) ([][]byte, error) {
		close(begun)
		<-finish
		return [][]byte{[]byte("1")}, nil
	})
	s, path, client := serve(t, httpsock.Options{Executor: x})
	got := make(chan answer, 1)
	go func() { got <- do(t, client, "POST", "/v1/execute/acme/slow", "") }()
	<-begun
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	for { // until the socket is gone
		conn, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(finish)
	if answer := <-got; answer.body != "1" {
		t.Errorf("got %+v", answer)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
