package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/script"
)

var protocols = []string{"grpc", "resp"}

// report asks the log for its sights from number from on, and waits for one.
func report(t *testing.T, seen *sight.Log, from int) sight.Report {
	t.Helper()
	answer := httptest.NewRecorder()
	path := fmt.Sprintf("/sights?wait=30s&from=%d", from)
	seen.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var report sight.Report
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Sights) == 0 {
		t.Fatalf("nothing was seen; calls: %+v", report.Calls)
	}
	return report
}

func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gateway") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func connectTo(t *testing.T, dir, protocol string) *agent {
	t.Helper()
	a, err := connect(options{protocol: protocol, socket: filepath.Join(dir, protocol+".sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

// TestCallersSeeEachChange publishes to a whole stack, and has callers of its agent.
func TestCallersSeeEachChange(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	stack, err := local.Start(t.Context(), folder(t), 1, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	registry, err := registryclient.Dial(stack.RegistryTarget())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })

	logs, sights := map[string]*sight.Log{}, map[string]int{}
	for _, protocol := range protocols {
		seen := sight.NewLog("node1")
		c := caller{
			callee: connectTo(t, stack.AgentDir(1), protocol).callee("acme/route"),
			script: "acme/route", interval: 2 * time.Millisecond, seen: seen, first: true,
		}
		logs[protocol] = seen
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
		first := report(t, seen, 0)
		if first.Sights[0].State != (sight.State{Failure: "NOTFOUND"}) {
			t.Errorf("%s: before there is a script: %+v", protocol, first.Sights[0])
		}
		sights[protocol] = first.Next
	}
	for version := uint64(1); version <= 3; version++ {
		content := fmt.Sprintf("change %d", version)
		_, err := registry.Publish(t.Context(), registryclient.PublishRequest{
			Name:   script.Name{Tenant: "acme", Script: "route"},
			Source: fmt.Appendf(nil, "function handle(request)\n  return request.method == 'GET' and %q or 'none'\nend\n", content),
			Write:  registryclient.Write{Author: "test"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for protocol, seen := range logs {
			told := report(t, seen, sights[protocol])
			want := sight.State{Content: content, Version: version}
			if protocol == "resp" {
				want.Version = 0
			}
			if told.Sights[0].State != want {
				t.Errorf("%s saw %+v, want %+v", protocol, told.Sights, want)
			}
			sights[protocol] = told.Next
		}
	}
	for protocol, seen := range logs {
		calls := report(t, seen, 0).Calls["acme/route"]
		if calls.Answered == 0 || len(calls.Failed) != 1 || calls.Failed["NOTFOUND"] == 0 {
			t.Errorf("%s: calls %+v", protocol, calls)
		}
	}
}

// serveSockets starts the sockets of an agent whose scripts are Go functions.
func serveSockets(t *testing.T, executor *gatewaytest.Executor) string {
	t.Helper()
	dir := folder(t)
	log := slog.New(slog.DiscardHandler)
	for name, s := range map[string]interface {
		Serve(l net.Listener) error
		Shutdown(ctx context.Context) error
	}{
		"resp.sock": respsock.New(respsock.Options{Executor: executor, Logger: log}),
		"grpc.sock": grpcsock.New(grpcsock.Options{Executor: executor, Logger: log}),
	} {
		l, err := gateway.Listen(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Serve(l) }() // its error says that it was shut down
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = s.Shutdown(ctx)
			<-ended
		})
	}
	return dir
}

func TestBothProtocolsTellTheSame(t *testing.T) {
	executor := gatewaytest.New()
	answer := func(results [][]byte, err error) gatewaytest.Func {
		return func(context.Context, *gateway.Call) ([][]byte, error) { return results, err }
	}
	type test struct {
		script string
		want   sight.State
	}
	tests := []test{
		{"acme/echo", sight.State{Content: request, Version: 7}},
		{"acme/nothing", sight.State{Version: 7}},
		{"acme/text", sight.State{Content: `a "b"`, Version: 7}},
		{"acme/two", sight.State{Content: "1", Version: 7}},
		{"acme/none", sight.State{Failure: "NOTFOUND"}},
		{"acme/fail", sight.State{Failure: "SCRIPT"}},
	}
	executor.Set("acme/text", answer([][]byte{[]byte(`"a \"b\""`)}, nil))
	executor.Set("acme/two", answer([][]byte{[]byte("1"), []byte("2")}, nil))
	for _, kind := range []script.Kind{
		script.Disabled, script.Timeout, script.Limit, script.Overloaded, script.Denied, script.Invalid, script.Unavailable, script.Internal,
	} {
		name := "acme/fails-" + fmt.Sprint(len(tests))
		executor.Set(name, answer(nil, script.Errorf(kind, "", "as asked for")))
		tests = append(tests, test{name, sight.State{Failure: string(kind)}})
	}
	dir := serveSockets(t, executor)
	for _, protocol := range protocols {
		a := connectTo(t, dir, protocol)
		for _, test := range tests {
			seen := sight.NewLog("node1")
			c := caller{callee: a.callee(test.script), script: test.script, seen: seen}
			got, ok := c.call(t.Context())
			if protocol == "resp" {
				test.want.Version = 0
			}
			if !ok || got != test.want {
				t.Errorf("%s, %s: got %+v, %v, want %+v", protocol, test.script, got, ok, test.want)
			}
			seen.See(test.script, got, time.Now())
			calls := report(t, seen, 0).Calls[test.script]
			if test.want.Failure == "" && calls.Answered != 1 || test.want.Failure != "" && calls.Failed[test.want.Failure] != 1 {
				t.Errorf("%s, %s: counted %+v", protocol, test.script, calls)
			}
		}
	}
}

func TestNoAgentIsUnavailable(t *testing.T) {
	for _, protocol := range protocols {
		c := caller{callee: connectTo(t, folder(t), protocol).callee("acme/echo"), script: "acme/echo", seen: sight.NewLog("node1")}
		if got, ok := c.call(t.Context()); !ok || got.Failure != "UNAVAILABLE" {
			t.Errorf("%s: got %+v, %v", protocol, got, ok)
		}
	}
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	executor := gatewaytest.New()
	begun, release := make(chan struct{}), make(chan struct{})
	executor.Set("acme/wait", func(context.Context, *gateway.Call) ([][]byte, error) {
		begun <- struct{}{}
		<-release
		return nil, nil
	})
	dir := serveSockets(t, executor)
	t.Cleanup(func() { close(release) })
	for _, protocol := range protocols {
		a := connectTo(t, dir, protocol)
		c := caller{callee: a.callee("acme/wait"), script: "acme/wait", seen: sight.NewLog("node1")}
		ended := make(chan sight.State)
		go func() { state, _ := c.call(t.Context()); ended <- state }()
		<-begun
		a.close()
		if got := <-ended; got.Failure == "" {
			t.Errorf("%s: a call that was cut short is reported as %+v", protocol, got)
		}
	}
}

// redisError is an error reply.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

func TestKindsOfRESPFailures(t *testing.T) {
	for _, test := range []struct {
		err     error
		kind    script.Kind
		message string
	}{
		{redisError("NOTFOUND script: there is no acme/a"), script.NotFound, "script: there is no acme/a"},
		{redisError("SCRIPT it broke (line 3)"), script.Script, "it broke (line 3)"},
		{redisError("ERR unknown command 'FCALL'"), "ERR", "unknown command 'FCALL'"},
		{io.EOF, script.Unavailable, "call the agent: EOF"},
		{redis.ErrClosed, script.Unavailable, "call the agent: redis: client is closed"},
		{&net.OpError{Op: "read", Net: "unix", Err: os.ErrDeadlineExceeded}, script.Timeout, "call the agent: read unix: i/o timeout"},
	} {
		got := respFailure(test.err)
		if got.Kind != test.kind || got.Message != test.message || !errors.Is(got, test.err) {
			t.Errorf("%v is %s, %q", test.err, got.Kind, got.Message)
		}
	}
}

func TestConnectWantsAProtocol(t *testing.T) {
	if _, err := connect(options{protocol: "spop"}); err == nil {
		t.Error("SPOP is taken")
	}
	for _, protocol := range protocols {
		a, err := connect(options{protocol: protocol})
		if err != nil {
			t.Fatal(err)
		}
		a.close()
		if want := "/run/scriptorium/" + protocol + ".sock"; a.socket != want {
			t.Errorf("%s is called at %s, want %s", protocol, a.socket, want)
		}
	}
}
