package middleware_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/middleware"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fixed decides the same of each request.
type fixed struct {
	decision *middleware.Decision
	err      error
}

func (f fixed) Decide(context.Context, *middleware.Rule, *middleware.Request) (*middleware.Decision, error) {
	return f.decision, f.err
}

func TestRules(t *testing.T) {
	for field, rule := range map[string]middleware.Rule{
		"script":   {Script: "gate"},
		"script:":  {Script: "event=pre-route"},
		"script: ": {Script: "event=/acme"},
		"key":      {Script: "acme/gate", Key: "user"},
		"key:":     {Script: "acme/gate", Key: "request.query_params.a,fail=open"},
		"fail":     {Script: "acme/gate", Fail: "maybe"},
		"timeout":  {Script: "acme/gate", Timeout: -1},
		"body":     {Script: "acme/gate", Body: 2 << 20},
		"params":   {Script: "acme/gate", Params: map[string]string{"a": "b,fail=open"}},
	} {
		if _, err := middleware.New(fixed{}, rule); script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%+v: %v, want %s", rule, err, field)
		}
	}
}

// TestWithoutADecision: what is malformed is denied whatever the rule says.
func TestWithoutADecision(t *testing.T) {
	gone := errors.New("nobody there")
	malformed := script.Errorf(script.Invalid, "path", "is odd")
	for _, tt := range []struct {
		fail string
		err  error
		want int
	}{
		{"", gone, 503},
		{"closed", gone, 503},
		{"open", gone, 200},
		{"", malformed, 400},
		{"closed", malformed, 400},
		{"open", malformed, 400},
	} {
		gate, err := middleware.New(fixed{err: tt.err}, middleware.Rule{Script: "acme/gate", Fail: tt.fail})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		gate.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if served := w.Code == http.StatusNotFound; served != (tt.want == 200) || !served && w.Code != tt.want || w.Header().Get("Scriptorium-Reason") == "" {
			t.Errorf("fail %q, %v: %d %v", tt.fail, tt.err, w.Code, w.Header())
		}
	}
}

// TestFragments: a request with a "#" in its target is denied, which handlers and what is behind them read
// differently. An escaped one is no fragment.
func TestFragments(t *testing.T) {
	gate, err := middleware.New(fixed{decision: &middleware.Decision{Allow: true}}, middleware.Rule{Script: "acme/gate", Fail: "open"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gate.Handler(http.NotFoundHandler()))
	defer server.Close()
	for target, want := range map[string]int{"/admin#/x": 400, "/admin?debug=1#x": 400, "/admin%23/x?debug=1%23x": 404} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", target, resp.Status, want)
		}
	}
}

// TestClientsKeepNoHeaderBack: a client that names a header in Connection does not have a proxy behind
// the gate drop what the script has set.
func TestClientsKeepNoHeaderBack(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, r.Header["X-User"], r.Header["X-More"], r.Header["X-Own"], r.Header["Upgrade"])
	}))
	defer app.Close()
	target, err := url.Parse(app.URL)
	if err != nil {
		t.Fatal(err)
	}
	d := &middleware.Decision{Allow: true, Request: middleware.Changes{Set: []middleware.Header{{"x-user", "ann"}}, Append: []middleware.Header{{"x-more", "1"}}}}
	gate, err := middleware.New(fixed{decision: d}, middleware.Rule{Script: "acme/gate"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gate.Handler(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}))
	defer server.Close()
	for _, connection := range [][]string{nil, {"X-User"}, {"keep-alive, x-USER , x-own", "X-More,"}, {"x-own,Upgrade"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Connection": connection, "X-Own": {"1"}, "Upgrade": {"test"}}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		want := "[ann] [1] [1] []\n"
		if strings.Contains(strings.Join(connection, ","), "x-own") {
			want = "[ann] [1] [] []\n"
		}
		if strings.Contains(strings.Join(connection, ","), "Upgrade") {
			want = "[ann] [1] [] [test]\n"
		}
		if err != nil || string(body) != want {
			t.Errorf("Connection: %q: the application gets %q, want %q: %v", connection, body, want, err)
		}
	}
}

// TestHeadersForTheClient hold against those of the handler, however that answers.
func TestHeadersForTheClient(t *testing.T) {
	d := &middleware.Decision{Allow: true, Response: middleware.Changes{Remove: []string{"x-secret"}, Set: []middleware.Header{{"x-a", "script"}}}}
	gate, err := middleware.New(fixed{decision: d}, middleware.Rule{Script: "acme/gate"})
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"nothing":    func(http.ResponseWriter) {},
		"status":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) },
		"text":       func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hello") },
		"copy":       func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("hello")) },
		"flush":      func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"controller": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"early hint": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("X-A", "late")
		},
		"hijack": func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: script\r\nContent-Length: 0\r\n\r\n")
			_ = conn.Close()
		},
	} {
		server := httptest.NewServer(gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", "app")
			w.Header().Set("X-Secret", "1")
			answer(w)
		})))
		resp, err := server.Client().Get(server.URL)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			if a := strings.Join(resp.Header["X-A"], "+"); a != "script" || resp.Header.Get("X-Secret") != "" {
				t.Errorf("%s: %v", name, resp.Header)
			}
			_ = resp.Body.Close()
		}
		server.Close()
	}
}
