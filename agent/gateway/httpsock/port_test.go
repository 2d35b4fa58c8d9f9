package httpsock_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/callers"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/memtest"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

const (
	acmeToken = "token-of-the-gateway-of-acme"
	shopToken = "token-of-the-gateway-of-shop"
)

// known are the callers of the tests.
func known(t *testing.T) *callers.Callers {
	t.Helper()
	c, err := callers.Parse("callers.yaml", fmt.Appendf(nil, `callers:
  - name: traefik
    tokens: ["sha256:%x"]
    certificates: [{uri: "spiffe://example.org/traefik"}]
    tenants: [acme]
  - name: other
    tokens: ["sha256:%x"]
    tenants: ["shop-*"]
`, sha256.Sum256([]byte(acmeToken)), sha256.Sum256([]byte(shopToken))))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// servePort starts a server of TCP; it returns its address, and a client of it.
func servePort(t *testing.T, opts httpsock.Options) (string, *http.Client) {
	t.Helper()
	if opts.Executor == nil {
		opts.Executor = gatewaytest.New()
	}
	opts.Logger, opts.Identify = slog.New(slog.DiscardHandler), known(t).Identify
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpsock.New(opts)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	address := l.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, httpsock.ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	return address, &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// TestPort: a token decides what a request may use, and each request shows its own.
func TestPort(t *testing.T) {
	x := gatewaytest.New()
	var heard string
	x.Set("acme/hear", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		heard = string(call.Args[0])
		return [][]byte{[]byte(`{}`)}, nil
	})
	_, client := servePort(t, httpsock.Options{Executor: x})
	const call = "/v1/execute/acme/echo"
	for _, tt := range []struct {
		name, path string
		header     []string
		status     int
		says       string
	}{
		{"a token", call, []string{callers.Header, acmeToken}, 200, "1"},
		{"no token", call, nil, 401, `"field":"caller","message":"the request shows no caller: send a token in the header Scriptorium-Token`},
		{"a wrong token", call, []string{callers.Header, acmeToken + "x"}, 401, "does not name this token"},
		{"a short token", call, []string{callers.Header, "x"}, 401, "a token has 20 to 512 characters"},
		{"a long token", call, []string{callers.Header, strings.Repeat("x", 513)}, 401, "a token has 20 to 512 characters"},
		{"the digest of a token", call, []string{callers.Header, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(acmeToken)))}, 401, "does not name this token"},
		{"another header", call, []string{"Authorization", "Bearer " + acmeToken}, 401, "shows no caller"},
		{"of another tenant", call, []string{callers.Header, shopToken}, 403, "caller other may not use tenant acme: the file of agentd --http-callers does not grant it"},
		{"its own tenants", "/v1/execute/shop-1/none", []string{callers.Header, shopToken}, 404, "shop-1/none"},
		{"a decision without a token", "/v1/decide/fail=open/acme/hear/x", nil, 401, "shows no caller"},
		{"a path that is not there", "/nothing", nil, 401, "shows no caller"},
		{"health", "/healthz", nil, 401, "shows no caller"},
		{"metrics", "/metrics", nil, 401, "shows no caller"},
		{"a path that a mux redirects", "//v1/execute/acme/echo", nil, 401, "shows no caller"},
		{"a decision", "/v1/decide/acme/hear/x", []string{callers.Header, acmeToken, "Authorization", "Bearer of-the-client"}, 200, ""},
	} {
		got := do(t, client, "POST", tt.path, "1", tt.header...)
		if got.status != tt.status || !strings.Contains(got.body, tt.says) {
			t.Errorf("%s: %d %s, want %d with %q", tt.name, got.status, got.body, tt.status, tt.says)
		}
		if strings.Contains(got.body, acmeToken) || fmt.Sprint(got.header) != strings.ReplaceAll(fmt.Sprint(got.header), acmeToken, "") {
			t.Errorf("%s: the answer has the token", tt.name)
		}
	}
	if !strings.Contains(heard, "of-the-client") || strings.Contains(strings.ToLower(heard), "scriptorium-token") || strings.Contains(heard, acmeToken) {
		t.Errorf("the script has got %s; want the client's Authorization, and no token", heard)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent/v1/scripts", nil)
	req.Header[callers.Header] = []string{acmeToken, acmeToken}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(string(body), "2 headers Scriptorium-Token") {
		t.Errorf("two tokens: %d %s", resp.StatusCode, body)
	}
}

// TestPortByConnection: a request does not get what the one before it on the connection could use.
func TestPortByConnection(t *testing.T) {
	address, _ := servePort(t, httpsock.Options{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, tt := range []struct {
		token  string
		status int
	}{{acmeToken, 200}, {shopToken, 403}, {acmeToken, 200}, {"", 401}} {
		fmt.Fprintf(conn, "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nScriptorium-Token: %s\r\n\r\n1", tt.token)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%q: %d, want %d", tt.token, resp.StatusCode, tt.status)
		}
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("a connection that has shown no token stays open")
	}
}

// TestPortAnswersStrangers with 401 and the end, whatever they ask for, and before they send a body.
func TestPortAnswersStrangers(t *testing.T) {
	address, _ := servePort(t, httpsock.Options{})
	for _, head := range []string{
		"OPTIONS * HTTP/1.1\r\nHost: x",
		"CONNECT x:1 HTTP/1.1\r\nHost: x",
		"GET / HTTP/1.0",
		"POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000",
		"POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue",
		"POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Scriptorium-Token",
		"GET /v1/scripts HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\nScriptorium_Token: " + acmeToken,
		"OPTIONS /v1/execute/acme/echo HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: scriptorium-token",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s\r\n\r\n", head)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%q: %v", head, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || !resp.Close || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %d %v, closes: %t", head, resp.StatusCode, resp.Header, resp.Close)
		}
	}
}

// TestPortWithTLS: a certificate that the file names decides alone, so a client of the gateway gains and loses
// nothing by a token of its own. Other certificates need a token.
func TestPortWithTLS(t *testing.T) {
	ca, stranger := certtest.NewCA(t), certtest.NewCA(t)
	own := ca.Issue("agent", certtest.Leaf{})
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(ca.File)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots, MinVersion: tls.VersionTLS13}
	address, _ := servePort(t, httpsock.Options{TLS: config})
	const uri = "spiffe://example.org/traefik"
	for _, tt := range []struct {
		name   string
		shows  certtest.Pair
		token  string
		status int // 0: the connection fails
	}{
		{"the gateway", ca.Issue("traefik", certtest.Leaf{URI: uri}), "", 200},
		{"the gateway with a token of its client", ca.Issue("traefik", certtest.Leaf{URI: uri}), "client-says-so-client-says-so", 200},
		{"another", ca.Issue("another", certtest.Leaf{URI: uri + "/x"}), "", 401},
		{"another with a token", ca.Issue("another", certtest.Leaf{URI: uri + "/x"}), acmeToken, 200},
		{"of another CA", stranger.Issue("traefik", certtest.Leaf{URI: uri}), acmeToken, 0},
		{"none", certtest.Pair{}, "", 401},
		{"none, with a token", certtest.Pair{}, acmeToken, 200},
	} {
		client := &tls.Config{RootCAs: roots}
		if tt.shows.Cert != "" {
			shown, err := tls.LoadX509KeyPair(tt.shows.Cert, tt.shows.Key)
			if err != nil {
				t.Fatal(err)
			}
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
		}
		transport := &http.Transport{TLSClientConfig: client}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/v1/execute/acme/echo", strings.NewReader("1"))
		if tt.token != "" {
			req.Header.Set(callers.Header, tt.token)
		}
		resp, err := (&http.Client{Transport: transport}).Do(req)
		status := 0
		if err == nil {
			status = resp.StatusCode
			resp.Body.Close()
		}
		transport.CloseIdleConnections()
		if status != tt.status {
			t.Errorf("%s: %d, %v; want %d", tt.name, status, err, tt.status)
		}
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/scripts HTTP/1.1\r\nHost: x\r\nScriptorium-Token: %s\r\n\r\n", acmeToken)
	if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "200 OK") {
		t.Errorf("without TLS: %q", answer)
	}
}

// TestPortIsKeptBusy: strangers that open connections and send half a head, or hold bodies, keep no caller out and
// cost a bounded amount.
func TestPortIsKeptBusy(t *testing.T) {
	const strangers, most = 1000, 48 << 20
	conns := budget.NewConnections(100, 1<<30)
	address, client := servePort(t, httpsock.Options{Connections: conns})
	token := []string{callers.Header, acmeToken}
	if got := do(t, client, "POST", "/v1/execute/acme/echo", "1", token...); got.body != "1" {
		t.Fatalf("got %+v", got)
	}
	before := memtest.InUse()
	head := "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 12<<10)
	open := make([]net.Conn, 0, strangers)
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range strangers {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		_, _ = io.WriteString(c, head) // one that made room for others learns that here
	}
	if _, err := open[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest: %v", err)
	}
	if held := memtest.InUse() - before; held > most {
		t.Errorf("%d strangers hold %d bytes, want at most %d", strangers, held, most)
	}
	if got := do(t, client, "POST", "/v1/execute/acme/echo", "1", token...); got.body != "1" {
		t.Errorf("who had a connection got %+v", got)
	}
	client.CloseIdleConnections()
	if got := do(t, client, "POST", "/v1/execute/acme/echo", "1", token...); got.body != "1" {
		t.Errorf("a new connection got %+v", got)
	}
	if n := conns.Open(); n > 2 {
		t.Errorf("%d connections count for callers", n)
	}
}

// TestPortCountsStrangers: those that have not shown a caller are a part of the connections for which there
// are descriptors.
func TestPortCountsStrangers(t *testing.T) {
	const most = 160
	conns := budget.NewConnections(most, 1<<30)
	address, client := servePort(t, httpsock.Options{Connections: conns})
	if got := do(t, client, "GET", "/v1/scripts", "", callers.Header, acmeToken); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	closed := make(chan struct{}, most)
	for range most {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			_, _ = c.Read(make([]byte, 1))
			closed <- struct{}{}
		}()
	}
	for range most * 7 / 8 {
		select {
		case <-closed:
		case <-time.After(10 * time.Second): // before the head of the oldest is late
			t.Fatal("more than an eighth of all connections are kept for strangers")
		}
	}
	users := 0
	for i := range 10 * most {
		if conns.Enter(fmt.Sprint("user ", i), 1) {
			users++
		}
	}
	if users > most*7/8 {
		t.Errorf("%d connections beside those of strangers, want at most %d", users, most*7/8)
	}
}

// TestPortBounds: one caller's connections leave room for another's.
func TestPortBounds(t *testing.T) {
	conns := budget.NewConnections(30, 1<<30)
	address, client := servePort(t, httpsock.Options{Connections: conns})
	refused := 0
	for range 60 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nScriptorium-Token: %s\r\n\r\n1", acmeToken)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused < 30 || refused == 60 {
		t.Errorf("%d of 60 connections of one caller were refused", refused)
	}
	if got := do(t, client, "GET", "/v1/scripts", "", callers.Header, shopToken); got.status != 200 {
		t.Errorf("another caller got %+v", got)
	}
}
