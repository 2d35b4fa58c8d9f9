package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
)

// echo calls once, on a connection of its own.
func (a *agent) echo(socket string) error {
	c := a.caller(socket)
	defer c.close()
	return c.call(0)
}

// caller calls a script over one connection that it keeps.
type caller struct {
	call  func(n int) error
	close func()
}

func (a *agent) caller(socket string) caller {
	ref := "shop/echo"
	if strings.HasPrefix(socket, "iso/") {
		ref = "iso/echo"
	}
	switch path := a.path(socket); socket[strings.LastIndex(socket, "/")+1:] {
	case "resp":
		return overRESP(path, ref)
	case "http":
		return overHTTP(path, ref)
	case "spop":
		return overSPOP(path, ref)
	case "port":
		return overPort(a.port, ref)
	default:
		return overGRPC(path, ref)
	}
}

func overRESP(path, ref string) caller {
	conn, dialErr := net.Dial("unix", path)
	if dialErr != nil {
		return caller{func(int) error { return dialErr }, func() {}}
	}
	r := bufio.NewReader(conn)
	return caller{func(n int) error {
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, command("FCALL", ref, "0", fmt.Sprint(n))); err != nil {
			return err
		}
		want := fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(n)), n)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
			return fmt.Errorf("%q, %w", got, err)
		}
		return nil
	}, func() { conn.Close() }}
}

func command(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

func overHTTP(path, ref string) caller {
	return overHTTPWith(func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }, ref, http.Header{})
}

func overHTTPWith(dial func(context.Context) (net.Conn, error), ref string, header http.Header) caller {
	transport := &http.Transport{MaxIdleConnsPerHost: 1, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	client := http.Client{Transport: transport, Timeout: patience}
	return caller{func(n int) error {
		req, err := http.NewRequest(http.MethodPost, "http://agent/v1/execute/"+ref, bytes.NewReader(fmt.Append(nil, n)))
		if err != nil {
			return err
		}
		req.Header = header
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != fmt.Sprint(n) {
			return fmt.Errorf("%s %.200q, %w", resp.Status, body, err)
		}
		return nil
	}, transport.CloseIdleConnections}
}

func overGRPC(path, ref string) caller {
	client, err := agentclient.New("unix:"+path, agentclient.WithAttempts(1), agentclient.WithTimeout(patience))
	if err != nil {
		return caller{func(int) error { return err }, func() {}}
	}
	return caller{func(n int) error {
		got, err := client.Call(context.Background(), ref, json.RawMessage(fmt.Sprint(n)))
		if err == nil && string(got.Values[0]) != fmt.Sprint(n) {
			err = fmt.Errorf("got %s", got.Values[0])
		}
		return err
	}, func() { _ = client.Close() }}
}

// bystanders call all the time. Each of their calls has to succeed.
type bystanders struct {
	agent   *agent
	during  atomic.Pointer[string] // the attack
	calls   atomic.Int64
	running sync.WaitGroup
	stop    chan struct{}
}

func (a *agent) bystanders() *bystanders {
	b := &bystanders{agent: a, stop: make(chan struct{})}
	b.during.Store(new(string))
	for _, socket := range []string{"resp", "http", "grpc", "spop", "port", "iso/resp"} {
		b.running.Go(func() { b.run(socket) })
	}
	return b
}

func (b *bystanders) run(socket string) {
	c := b.agent.caller(socket)
	defer c.close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
		if err := c.call(n); err != nil {
			b.agent.t.Errorf("during %q a caller over %s who means well got %v; refused by reason: %s", *b.during.Load(), socket, err, b.agent.refused())
			c.close()
			c = b.agent.caller(socket)
		}
		b.calls.Add(1)
	}
}

// refused returns how many calls the agent has refused, by reason.
func (a *agent) refused() string {
	text, err := a.metrics()
	if err != nil {
		return err.Error()
	}
	var refused []string
	for line := range strings.Lines(text) {
		if reason, ok := strings.CutPrefix(line, "scriptorium_agent_calls_overloaded_total"); ok && !strings.HasSuffix(line, " 0\n") {
			refused = append(refused, strings.TrimSpace(reason))
		}
	}
	return strings.Join(refused, ", ")
}

func (b *bystanders) end() {
	close(b.stop)
	b.running.Wait()
}
