package console_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/console"
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
