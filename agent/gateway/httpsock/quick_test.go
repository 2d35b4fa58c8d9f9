package httpsock_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
)

// saysWhatItGot is a script that denies a request, and says what it is in the body.
func saysWhatItGot(_ context.Context, call *gateway.Call) ([][]byte, error) {
	return [][]byte{fmt.Appendf(nil, `{"allow":false,"body":%s,"response_headers":{"append":{"x-b":["1","2"],"x-a":"3"}}}`, strconv.Quote(string(bytes.ToValidUTF8(call.Args[0], []byte("?")))))}, nil
}

// exchanged sends what a client sends and returns the answers, with the requests that the script got.
func exchanged(t *testing.T, path, raw string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, raw); err != nil {
		return ""
	}
	_ = conn.(*net.UnixConn).CloseWrite()
	var out strings.Builder
	r := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("after %q the connection does not end", raw)
		}
		if err != nil {
			return out.String()
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusBadRequest && resp.Close {
			continue // what net/http says of what is no request; it says nothing of some
		}
		resp.Header.Del("Date")
		fmt.Fprintln(&out, resp.Status, resp.Close, resp.ContentLength)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			fmt.Fprintln(&out, name, resp.Header[name])
		}
		fmt.Fprintf(&out, "%s %v\n", body, err)
	}
}

// heads are those that a client can send, or have a gateway send.
var heads = []string{
	nginxAsks,
	nginxAsks + nginxAsks + nginxAsks,
	"GET /v1/decide/acme/gate/cart%2fx?a=1&b=%zz HTTP/1.1\r\nHost: x\r\n\r\n",
	"DELETE /v1/decide/fail=open,param.a=b/acme/gate/x HTTP/1.1\r\nhost: x\r\nX-Empty:\r\nX-Spaces:  \t a  \r\nx-TWICE: 1\r\nX-twice: 2\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + nginxAsks,
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nConnection: x-a, keep-alive\r\nX-A: 1\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" + nginxAsks,
	"POST /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + nginxAsks,
	"POST /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
	"POST /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + nginxAsks,
	"POST /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
	"POST /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost:\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.0\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\nHost: x\n\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nX-Folded: a\r\n b\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n bad\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nX-A: a\rb\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nX-A: a\x00b\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nX A: b\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nX-Bytes: \xff\xfe\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n",
	"GET /v1/decide/acme/gate/\x7f HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/gate/a b HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/gate/%zz HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET http://y/v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"HEAD /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"CONNECT /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"GE(T /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/gate/../../../v1/scripts HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/missing/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/gate HTTP/1.1\r\nHost: x\r\nX-Original-URI: /a\r\nX-Forwarded-Uri: /b\r\n\r\n",
	"GET /v1/decide/format=json/acme/gate/ HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 126) + "\r\n",
	"GET /v1/decide/acme/gate/ HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("a", 5000) + "\r\n\r\n" + nginxAsks,
	nginxAsks + "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + nginxAsks,
	nginxAsks + nginxAsks[:100],
}

// differ sends the same bytes twice. Behind a request for something else, net/http serves them, and else
// the connection itself what it can.
func differ(t *testing.T, path, raw string) {
	t.Helper()
	const health = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	quick, slow := exchanged(t, path, raw), exchanged(t, path, health+raw)
	if want := exchanged(t, path, health) + quick; slow != want {
		t.Errorf("%q is answered\n%s\nand by net/http\n%s", raw, want, slow)
	}
}

// TestQuickAnswers: decisions that net/http has no part in are those that it would make.
func TestQuickAnswers(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/gate", saysWhatItGot)
	_, path, _ := serve(t, httpsock.Options{Executor: x})
	x.Set("acme/long", deniesAtLength)
	for _, raw := range heads {
		differ(t, path, raw)
	}
	for _, raw := range lengthyAsks {
		differ(t, path, raw+nginxAsks+raw)
	}
	if got := exchanged(t, path, nginxAsks); !strings.Contains(got, "403 Forbidden") || !strings.Contains(got, "/shop") {
		t.Errorf("nginx gets\n%s", got)
	}
}

func FuzzQuickAnswers(f *testing.F) {
	x := gatewaytest.New()
	x.Set("acme/gate", saysWhatItGot)
	_, path, _ := serve(f, httpsock.Options{Executor: x})
	for _, raw := range heads {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.Count(raw, "\n") > 100 {
			return // net/http counts the lines of a second head from where it has read to
		}
		differ(t, path, raw)
	})
}

// TestAClientThatGoesAway ends its call, if that takes long. One that sends the next request meanwhile
// gets both answers.
func TestAClientThatGoesAway(t *testing.T) {
	x := gatewaytest.New()
	began, ended, goOn := make(chan struct{}), make(chan error, 1), make(chan struct{})
	x.Set("acme/gate", func(ctx context.Context, _ *gateway.Call) ([][]byte, error) {
		began <- struct{}{}
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-goOn:
			ended <- nil
		}
		return nil, nil
	})
	_, path, _ := serve(t, httpsock.Options{Executor: x})
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, nginxAsks); err != nil {
			t.Fatal(err)
		}
		<-began
		return conn
	}
	_ = dial().Close()
	if err := <-ended; err == nil {
		t.Error("the call goes on without its client")
	}
	conn := dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, nginxAsks); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for i := range 2 {
		if i > 0 {
			<-began
		}
		select {
		case <-time.After(5 * httpsock.LongCall): // it is a long one by now
		case err := <-ended:
			t.Fatalf("call %d: %v", i, err)
		}
		goOn <- struct{}{}
		if err := <-ended; err != nil {
			t.Errorf("call %d: %v", i, err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("answer %d: %s", i, resp.Status)
		}
	}
}
