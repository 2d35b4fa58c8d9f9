package httpsock_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
)

// nginxAsks is what nginx sends for the request of a browser.
const nginxAsks = "GET /v1/decide/acme/gate HTTP/1.1\r\nHost: scriptorium\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /shop?id=7\r\n" +
	"X-Forwarded-Host: shop.example\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.7\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: text/html,application/xhtml+xml\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nReferer: https://shop.example/\r\nCookie: user=ann; theme=dark\r\n\r\n"

// BenchmarkDecide is a decision over a socket, without an engine.
func BenchmarkDecide(b *testing.B) {
	x := gatewaytest.New()
	result := [][]byte{[]byte(`{"headers":{"set":{"x-user":"ann"}}}`)}
	x.Set("acme/gate", func(context.Context, *gateway.Call) ([][]byte, error) { return result, nil })
	_, path, _ := serve(b, httpsock.Options{Executor: x})
	conn, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.WriteString(conn, nginxAsks); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status)
		}
	}
}
