package worker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
)

// TestProtocols: a tenant's process serves every protocol, with what system calls it has
// left, and after an answer for which the server of HTTP would like to shut the
// connection down.
func TestProtocols(t *testing.T) {
	w := newWorld(t, nil, walled("acme"))
	w.publish("lua", "acme/route", `function handle(a) return "hello " .. a end`)
	w.answer("acme/route", `"x"`)
	pid := w.pid("acme")

	web := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket("acme", "http"))
	}}}
	defer web.CloseIdleConnections()
	post := func(path, body string) (int, string) {
		resp, err := web.Post("http://tenant"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for range 2 {
		if code, got := post("/v1/execute/acme/route", `"x"`); code != http.StatusOK || !strings.Contains(got, "hello x") {
			t.Errorf("HTTP: %d, %.100s", code, got)
		}
		if code, got := post("/nowhere", strings.Repeat("x", 1<<20)); code != http.StatusNotFound {
			t.Errorf("HTTP, with more than is read: %d, %.100s", code, got)
		}
	}

	conn, err := grpc.NewClient("unix:"+w.socket("acme", "grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		got, err := agentv1.NewExecutorClient(conn).Execute(t.Context(), &agentv1.ExecuteRequest{Script: "acme/route", Args: [][]byte{[]byte(`"x"`)}})
		if err != nil || len(got.GetResults()) != 1 || string(got.GetResults()[0]) != `"hello x"` {
			t.Errorf("gRPC: %v, %v", got, err)
		}
	}
	if w.pid("acme") != pid {
		t.Error("the process was replaced")
	}
}
