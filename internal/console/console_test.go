package console_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials/local"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	stacks "github.com/scriptorium-dev/scriptorium/internal/local"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// patience bounds every wait; nothing is measured by it.
const patience = 30 * time.Second

// assets are the files that the tests' console serves.
func assets() fstest.MapFS {
	return fstest.MapFS{
		"index.html":           {Data: []byte("<!doctype html><title>home</title>")},
		"signin/index.html":    {Data: []byte("<!doctype html><title>sign in</title>")},
		"build/q-12345678.js":  {Data: []byte(strings.Repeat("export const answer = 42;\n", 200))},
		"assets/secret/.token": {Data: []byte("hidden")},
	}
}

// clock is one that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// fixture is a console in front of a registry.
type fixture struct {
	*console.Server
	t       *testing.T
	clock   *clock
	metrics *prometheus.Registry
	log     *logs
	codes   *lastCode
}

// lastCode keeps the code that the console announced last.
type lastCode struct {
	mu   sync.Mutex
	code string
}

func (c *lastCode) announce(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code = code
}

func (c *lastCode) get() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code
}

// logs are what the console has logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startRegistry starts a stack without agents, and returns the registry's address.
func startRegistry(t *testing.T, opts ...stacks.Option) *stacks.Stack {
	t.Helper()
	dir, err := os.MkdirTemp("", "console") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	stack, err := stacks.Start(t.Context(), dir, 0, slog.New(slog.DiscardHandler), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return stack
}

// start starts a console in front of the registry at the address.
func start(t *testing.T, registry string, change ...func(*console.Config, *console.Site)) *fixture {
	t.Helper()
	dial, err := console.Dialer(registry, local.NewCredentials())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, clock: &clock{now: time.Now()}, metrics: prometheus.NewRegistry(), log: &logs{}, codes: &lastCode{}}
	cfg := console.Config{
		Dial:   dial,
		Assets: assets(), Announce: f.codes.announce, Clock: f.clock.time,
		Log: slog.New(slog.NewTextHandler(f.log, nil)), Metrics: f.metrics,
	}
	at := console.Site{Listen: "127.0.0.1:0"}
	for _, c := range change {
		c(&cfg, &at)
	}
	if f.Server, err = console.Start(t.Context(), at, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Errorf("stop the console: %v", err)
		}
	})
	return f
}

// browser returns a client with cookies of its own.
func (f *fixture) browser() *http.Client {
	f.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{}}
}

// post sends JSON to a path.
func (f *fixture) post(browser *http.Client, path, body string) *http.Response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.URL()+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := browser.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// signedIn returns a browser that has signed in with the code.
func (f *fixture) signedIn() *http.Client {
	f.t.Helper()
	browser := f.browser()
	if resp := f.post(browser, "/session", `{"code":"`+f.codes.get()+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // send closes it
		f.t.Fatalf("sign in: %s", resp.Status)
	}
	return browser
}

// call calls a method of the registry's service.
func call[Req, Resp any](f *fixture, browser *http.Client, method string, request *Req) (*Resp, error) {
	resp, err := connect.NewClient[Req, Resp](browser, f.URL()+"/scriptorium.registry.v1.Registry/"+method).CallUnary(f.t.Context(), connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func watch(ctx context.Context, f *fixture, browser *http.Client) (*connect.ServerStreamForClient[registryv1.WatchStatusResponse], error) {
	client := connect.NewClient[registryv1.WatchStatusRequest, registryv1.WatchStatusResponse](browser, f.URL()+"/scriptorium.registry.v1.Registry/WatchStatus")
	return client.CallServerStream(ctx, connect.NewRequest(&registryv1.WatchStatusRequest{}))
}

// TestThroughTheConsole: calls and streams of a browser reach the registry, and what it answers reaches the browser.
func TestThroughTheConsole(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	for _, options := range [][]connect.ClientOption{nil, {connect.WithProtoJSON()}} {
		client := connect.NewClient[registryv1.PublishRequest, registryv1.PublishResponse](browser, f.URL()+"/scriptorium.registry.v1.Registry/Publish", options...)
		published, err := client.CallUnary(t.Context(), connect.NewRequest(&registryv1.PublishRequest{
			Tenant: "acme", Name: "greet", Author: "ann", Source: []byte("function handle() return 1 end"),
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := published.Msg.GetRelease().GetName(); got != "greet" {
			t.Errorf("published %q", got)
		}
	}
	stream, err := watch(t.Context(), f, browser)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() || len(stream.Msg().GetStatus().GetScripts()) != 1 {
		t.Fatalf("%v, %v: want the status of one script", stream.Msg(), stream.Err())
	}
}

// detail returns the error that a Connect error carries.
func detail(t *testing.T, err error) *scriptv1.Error {
	t.Helper()
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || len(e.Details()) != 1 {
		t.Fatalf("%v: want a Connect error with one detail", err)
	}
	value, err := e.Details()[0].Value()
	if err != nil {
		t.Fatal(err)
	}
	found, ok := value.(*scriptv1.Error)
	if !ok {
		t.Fatalf("the detail is a %T", value)
	}
	return found
}
