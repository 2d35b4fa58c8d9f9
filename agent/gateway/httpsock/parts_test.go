package httpsock_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// sizes of bodies are those at which a part is full, and those beside them.
func sizes() (all []int) {
	for part := 4 << 10; part <= 1<<20; part *= 2 {
		all = append(all, part-1, part, part+1)
	}
	return append(all, 2, 3, 100, 3*4<<10, 5*4<<10)
}

// TestBodiesInParts: a script gets the body that its caller has sent, whatever its size, and nothing of
// another one. Callers send bodies in pieces, and some do not finish theirs.
func TestBodiesInParts(t *testing.T) {
	_, path, _ := serve(t, httpsock.Options{})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var callers sync.WaitGroup
	for caller := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(caller)))
		callers.Go(func() {
			all := sizes()
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for i, size := range all {
				body := []byte(`"` + strings.Repeat(string(rune('a'+caller))+string(rune('a'+i%26)), size/2) + `"`)
				body = append(body[:min(size, len(body))-1], '"')
				if err := echoes(path, body, random); err != nil {
					t.Errorf("a body of %d bytes: %v", len(body), err)
				}
			}
		})
	}
	callers.Wait()
}

// echoes sends the body, and one that does not end.
func echoes(path string, body []byte, random *rand.Rand) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	const head = "POST /v1/execute/acme/echo HTTP/1.1\r\nHost: x\r\n"
	var sent bytes.Buffer
	if chunked := random.IntN(2) == 0; chunked {
		sent.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n")
		for rest := body; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1+len(body)/5))
			fmt.Fprintf(&sent, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		sent.WriteString("0\r\n\r\n")
	} else {
		fmt.Fprintf(&sent, head+"Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	for sent.Len() > 0 {
		if _, err := conn.Write(sent.Next(1 + random.IntN(64<<10))); err != nil && len(body) <= 1<<20 {
			return err
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	switch {
	case err != nil:
		return err
	case len(body) > 1<<20 && resp.StatusCode == http.StatusRequestEntityTooLarge:
		return nil
	case len(body) > 1<<20 || resp.StatusCode != http.StatusOK || !bytes.Equal(got, body):
		return fmt.Errorf("%s with %d bytes: %.80q", resp.Status, len(got), got)
	}
	_, err = fmt.Fprintf(conn, head+"Content-Length: %d\r\n\r\n%s", len(body)+1, body) // and goes away
	return err
}

// TestAllIsGivenBack: whatever becomes of a request or its answer, nothing of the budget stays taken.
func TestAllIsGivenBack(t *testing.T) {
	x := gatewaytest.New()
	x.Set("acme/long", deniesAtLength)
	x.Set("acme/many", func(context.Context, *gateway.Call) ([][]byte, error) {
		long := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
		return [][]byte{long, long}, nil
	})
	x.Set("acme/deny", func(context.Context, *gateway.Call) ([][]byte, error) {
		return [][]byte{[]byte(`{"allow":false,"body":"` + strings.Repeat(`\u0001`, 100<<10) + `"}`)}, nil
	})
	shared := budget.New(4 << 20)
	_, path, _ := serve(t, httpsock.Options{Executor: x, Budget: shared})
	large := strings.Repeat("1", 300<<10)
	var requests []string
	for _, target := range []string{"decide/acme/long/", "decide/acme/deny/", "decide/format=json/acme/deny/", "decide/acme/none/", "decide/acme/fail/", "decide/acme/many/", "decide/acme/long/a#b", "execute/acme/many", "execute/acme/fail", "execute/acme/none", "execute/acme/echo"} {
		head := "POST /v1/" + target + " HTTP/1.1\r\nHost: x\r\n"
		for _, rest := range []string{
			"\r\n", "Content-Length: 0\r\n\r\n", "Content-Length: 307200\r\n\r\n" + large, "Content-Length: 307201\r\n\r\n" + large,
			"Content-Length: 2000000\r\n\r\n" + large, "Transfer-Encoding: chunked\r\n\r\n4b000\r\n" + large + "\r\n0\r\n\r\n",
			"Transfer-Encoding: chunked\r\n\r\n4b000\r\n" + large + "\r\nzz\r\n", "Content-Type: text/html\r\nContent-Length: 307200\r\n\r\n" + large,
			"Content-Type: " + httpsock.ArgsContentType + "\r\nContent-Length: 307200\r\n\r\n" + large,
		} {
			requests = append(requests, head+rest, head+rest+head+rest)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var clients sync.WaitGroup
	for client := range 8 { // together they exceed their budget
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		clients.Go(func() {
			for i := range 5 {
				conn, err := net.Dial("unix", path)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
				_, _ = io.WriteString(conn, requests[random.IntN(len(requests))])
				if read := (i + client) % 3; read > 0 {
					_ = conn.(*net.UnixConn).CloseWrite()
					_, _ = io.CopyN(io.Discard, conn, 100<<(20*(read-1))) // a part, or all
				}
				_ = conn.Close()
			}
		})
	}
	clients.Wait()
	for due := time.Now().Add(20 * time.Second); shared.Held() != 0; runtime.Gosched() {
		if time.Now().After(due) {
			t.Fatalf("%d bytes of the budget stay taken", shared.Held())
		}
	}
}
