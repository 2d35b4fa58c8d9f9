package httpsock_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/script"
)

// asked is what a script gets of a request.
type asked struct {
	Tenant, Method, Scheme, Host, Path, Query string
	RawPath                                   string `json:"raw_path"`
	RemoteAddr                                string `json:"remote_addr"`
	Body                                      *string
	Headers                                   map[string]any
	Params                                    map[string]string
}

// deciding returns an executor whose script acme/d notes what it gets, and returns result.
func deciding(result *string, got *asked) *gatewaytest.Executor {
	x := gatewaytest.New()
	x.Set("acme/d", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		*got = asked{}
		if err := json.Unmarshal(call.Args[0], got); err != nil {
			return nil, script.Errorf(script.Invalid, "", "%v", err)
		}
		if *result == "" {
			return nil, nil
		}
		return [][]byte{[]byte(*result)}, nil
	})
	return x
}

// reply is an answer without its body.
type reply struct {
	status int
	header http.Header
}

func ask(t *testing.T, client *http.Client, method, path, body string, headers ...string) (reply, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque, _, _ = strings.Cut(path, "?") // as it is, and not as package url writes it
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header}, string(answer)
}

// TestDecide: what gateways get for what scripts return.
func TestDecide(t *testing.T) {
	var result string
	var got asked
	_, _, client := serve(t, httpsock.Options{Executor: deciding(&result, &got)})
	for _, tt := range []struct {
		path, result string
		status       int
		headers      map[string]string
		body         string
	}{
		{"d", ``, 200, map[string]string{"Content-Length": "0", "Scriptorium-Version": "7", "X-Accel-Redirect": ""}, ""},
		{"d", `{"allow":false,"status":401,"body":"who?","response_headers":{"set":{"www-authenticate":"Basic"}}}`, 401, map[string]string{"Www-Authenticate": "Basic", "Content-Type": "text/plain; charset=utf-8"}, "who?"},
		{"d", `{"redirect":"/login"}`, 302, map[string]string{"Location": "/login"}, ""},
		{"d", `{"headers":{"set":{"x-user":"ann"},"remove":["cookie","x-a"]},"response_headers":{"set":{"x-b":"1"}},"upstream":"canary","path":"/v2","query":"","metadata":{"a":1}}`, 200, map[string]string{
			"X-User": "ann", "Scriptorium-Remove": "cookie, x-a", "Scriptorium-Response-X-B": "1", "Scriptorium-Upstream": "canary", "Scriptorium-Path": "/v2", "Scriptorium-Metadata": `{"a":1}`,
		}, ""},
		{"d", `{"allow":false,"status":200,"body":"hello"}`, 503, map[string]string{"Scriptorium-Reason": "INVALID"}, "no decision\n"},
		{"d", `{"alow":false}`, 503, map[string]string{"Scriptorium-Reason": "INVALID"}, "no decision\n"},
		{"fail=open/acme/d", `{"allow":false,"status":200,"body":"hello"}`, 503, map[string]string{"Scriptorium-Reason": "INVALID"}, "no decision\n"},
		{"accel=@app/acme/d", ``, 200, map[string]string{"X-Accel-Redirect": "@app"}, ""},
		{"accel=@app/acme/d", `{"allow":false,"status":200,"body":"hello"}`, 200, map[string]string{"X-Accel-Redirect": ""}, "hello"},
		{"fail", ``, 503, map[string]string{"Scriptorium-Reason": "SCRIPT"}, "no decision\n"},
		{"none", ``, 503, map[string]string{"Scriptorium-Reason": "NOTFOUND"}, "no decision\n"},
		{"panic", ``, 503, map[string]string{"Scriptorium-Reason": "INTERNAL"}, "no decision\n"},
		{"timeout=1ms/acme/wait", ``, 503, map[string]string{"Scriptorium-Reason": "TIMEOUT"}, "no decision\n"},
		{"fail=open/acme/fail", ``, 200, map[string]string{"Scriptorium-Reason": "SCRIPT", "Content-Length": "0"}, ""},
		{"fail=open,accel=@app/acme/none", ``, 200, map[string]string{"Scriptorium-Reason": "NOTFOUND", "X-Accel-Redirect": "@app"}, ""},
		{"fail=open/acme/d", `{"alow":false}`, 200, map[string]string{"Scriptorium-Reason": "INVALID"}, ""},
	} {
		result = tt.result
		if !strings.Contains(tt.path, "/") {
			tt.path = "acme/" + tt.path
		}
		resp, body := ask(t, client, http.MethodGet, "/v1/decide/"+tt.path, "", "X-Forwarded-Uri", "/")
		if resp.status != tt.status || body != tt.body {
			t.Errorf("%s, %s: %d %q, want %d %q", tt.path, tt.result, resp.status, body, tt.status, tt.body)
		}
		for name, want := range tt.headers {
			if got := resp.header.Get(name); got != want {
				t.Errorf("%s, %s: %s is %q, want %q", tt.path, tt.result, name, got, want)
			}
		}
	}
}

// TestOnError: without a decision the script's onError holds, unless the gateway says otherwise.
func TestOnError(t *testing.T) {
	var result string
	var got asked
	x := deciding(&result, &got)
	fail := func(context.Context, *gateway.Call) ([][]byte, error) {
		return nil, script.Errorf(script.Script, "", "it broke")
	}
	for _, ref := range []string{"acme/open@3", "acme/open", "acme/busy", "acme/cached"} {
		x.Set(ref, fail)
	}
	open, busy := script.OnError{Policy: script.PolicyOpen}, script.OnError{Status: 429, Body: "later\n"}
	for ref, onError := range map[string]script.OnError{
		"acme/open": open, "acme/open@3": busy, "acme/busy": busy, "acme/cached": {Status: 304}, "acme/d": open, "acme/kind": open, "acme/panic": open, "acme/wait": open,
	} {
		x.SetOnError(ref, onError)
	}
	_, _, client := serve(t, httpsock.Options{Executor: x})
	for _, tt := range []struct {
		path, result string
		status       int
		reason, body string
	}{
		{"acme/open", "", 200, "SCRIPT", ""},
		{"acme/open@3", "", 429, "SCRIPT", "later\n"},
		{"acme/busy", "", 429, "SCRIPT", "later\n"},
		{"acme/cached", "", 304, "SCRIPT", ""},
		{"timeout=1ms/acme/wait", "", 200, "TIMEOUT", ""},
		{"acme/panic", "", 200, "INTERNAL", ""},
		{"acme/none", "", 503, "NOTFOUND", "no decision\n"},
		{"acme/d", `{"alow":false}`, 200, "INVALID", ""},
		{"acme/d", `{"allow":false,"status":200}`, 503, "INVALID", "no decision\n"},
		{"acme/d", `false`, 403, "", ""},
		{"fail=closed/acme/open", "", 503, "SCRIPT", "no decision\n"},
		{"fail=closed/acme/busy", "", 429, "SCRIPT", "later\n"},
		{"fail=open/acme/busy", "", 200, "SCRIPT", ""},
	} {
		result = tt.result
		resp, body := ask(t, client, http.MethodGet, "/v1/decide/"+tt.path, "", "X-Forwarded-Uri", "/")
		if resp.status != tt.status || body != tt.body || resp.header.Get("Scriptorium-Reason") != tt.reason {
			t.Errorf("%s, %s: %d %q %s, want %d %q %s", tt.path, tt.result, resp.status, body, resp.header.Get("Scriptorium-Reason"), tt.status, tt.body, tt.reason)
		}
	}
	resp, _ := ask(t, client, http.MethodGet, "/v1/decide/acme/open", "")
	if resp.status != http.StatusBadRequest {
		t.Errorf("a malformed request: %d", resp.status)
	}
}

// TestWhatIsAsked: the request that a script gets is the client's, whichever way a gateway sends it.
func TestWhatIsAsked(t *testing.T) {
	var result string
	var got asked
	_, _, client := serve(t, httpsock.Options{Executor: deciding(&result, &got)})
	text := func(s string) *string { return &s }
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		want                     asked
	}{
		{"Caddy and Traefik", "GET", "/v1/decide/acme/d?fail=open", "", []string{
			"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/a%2fb?x=1&x=2", "X-Forwarded-Host", "shop.example", "X-Forwarded-Proto", "https", "X-Forwarded-For", "6.6.6.6, 192.0.2.7",
		}, asked{Method: "POST", Scheme: "https", Host: "shop.example", Path: "/a%2Fb", RawPath: "/a%2fb", Query: "x=1&x=2", RemoteAddr: "192.0.2.7"}},
		{"nginx", "GET", "/v1/decide/param.env=prod/acme/d", "", []string{"X-Original-Uri", "/a", "X-Original-Method", "PUT"}, asked{
			Method: "PUT", Host: "gateway", Path: "/a", Params: map[string]string{"env": "prod"},
		}},
		{"ingress-nginx", "GET", "/v1/decide/acme/d", "", []string{"X-Original-Url", "https://shop.example/a?b"}, asked{
			Method: "GET", Scheme: "https", Host: "shop.example", Path: "/a", Query: "b",
		}},
		{"Envoy", "PATCH", "/v1/decide/acme/d//cart?fail=open", "hi", []string{"X-Forwarded-Uri", "/forged"}, asked{
			Method: "PATCH", Host: "gateway", Path: "/cart", RawPath: "//cart", Query: "fail=open", Body: text("hi"),
		}},
		{"a path whose escapes are not all its own", "GET", `/v1/decide/acme/d/admin/%2e%2e%2Fpublic"`, "", nil, asked{
			Method: "GET", Host: "gateway", Path: `/admin/..%2Fpublic"`, RawPath: `/admin/%2e%2e%2Fpublic"`,
		}},
		{"a URL whose escapes are not all its own", "GET", "/v1/decide/acme/d", "", []string{"X-Original-Url", `https://shop.example/admin/%2e%2e%2Fpublic";x?b=%`}, asked{
			Method: "GET", Scheme: "https", Host: "shop.example", Path: `/admin/..%2Fpublic";x`, RawPath: `/admin/%2e%2e%2Fpublic";x`, Query: "b=%",
		}},
		{"a URL without a path", "GET", "/v1/decide/acme/d", "", []string{"X-Original-Url", "http://[::1]:80"}, asked{Method: "GET", Scheme: "http", Host: "[::1]:80", Path: "/"}},
		{"the path of a proxy", "GET", "/v1/decide/acme/d/", "", nil, asked{Method: "GET", Host: "gateway", Path: "/"}},
		{"two agree", "GET", "/v1/decide/acme/d", "", []string{"X-Forwarded-Uri", "/a", "X-Original-Uri", "/a"}, asked{Method: "GET", Host: "gateway", Path: "/a"}},
	} {
		resp, body := ask(t, client, tt.method, tt.path, tt.body, append(tt.headers, "X-User", `a"n`, "Scriptorium-Upstream", "forged")...)
		if resp.status != http.StatusOK {
			t.Errorf("%s: %d %s", tt.name, resp.status, body)
			continue
		}
		tt.want.Tenant = "acme"
		if user := got.Headers["x-user"]; user != `a"n` || got.Headers["scriptorium-upstream"] != nil || got.Headers["x-forwarded-uri"] != nil {
			t.Errorf("%s: headers %v", tt.name, got.Headers)
		}
		if len(got.Params) == 0 {
			got.Params = nil
		}
		wantBody, gotBody := tt.want.Body, got.Body
		got.Headers, got.Body, tt.want.Body = nil, nil, nil
		if a, b := asJSON(t, got), asJSON(t, tt.want); a != b || (gotBody == nil) != (wantBody == nil) || gotBody != nil && *gotBody != *wantBody {
			t.Errorf("%s: %s\nwant %s", tt.name, a, b)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhatIsNotAsked: what a client can spoil is denied, also where the gateway fails open.
func TestWhatIsNotAsked(t *testing.T) {
	var result string
	var got asked
	_, _, client := serve(t, httpsock.Options{Executor: deciding(&result, &got)})
	for _, tt := range []struct {
		name, path, body string
		status           int
		headers          []string
	}{
		{"no URI", "fail=open/acme/d", "", 400, nil},
		{"two that disagree", "fail=open/acme/d", "", 400, []string{"X-Forwarded-Uri", "/public", "X-Original-Uri", "/admin"}},
		{"two of the same name", "fail=open/acme/d", "", 400, []string{"X-Forwarded-Uri", "/public", "X-Forwarded-Uri", "/admin"}},
		{"two methods", "fail=open/acme/d", "", 400, []string{"X-Forwarded-Uri", "/", "X-Forwarded-Method", "GET", "X-Original-Method", "POST"}},
		{"no path", "fail=open/acme/d", "", 400, []string{"X-Forwarded-Uri", "admin"}},
		{"a host with a query", "fail=open/acme/d", "", 400, []string{"X-Original-Url", "http://shop.example?/admin"}},
		{"a host with a fragment", "fail=open/acme/d", "", 400, []string{"X-Original-Url", "http://shop.example#/admin"}},
		{"a host with a user", "fail=open/acme/d", "", 400, []string{"X-Original-Url", "http://ann@shop.example/admin"}},
		{"a host with a backslash", "fail=open/acme/d", "", 400, []string{"X-Original-Url", `http://shop.example\x/admin`}},
		{"no host", "fail=open/acme/d", "", 400, []string{"X-Original-Url", "http:///admin"}},
		{"a fragment", "fail=open/acme/d", "", 400, []string{"X-Forwarded-Uri", "/admin#/x"}},
		{"a fragment behind a query", "fail=open/acme/d", "", 400, []string{"X-Original-Url", "http://shop.example/admin?debug=1#x"}},
		{"a fragment in the path", "fail=open/acme/d/admin#/x", "", 400, nil},
		{"a large body", "fail=open/acme/d/", strings.Repeat("x", 1<<20+1), 413, nil},
		{"an unknown setting", "fial=closed/acme/d", "", 400, []string{"X-Forwarded-Uri", "/"}},
		{"an unknown value", "fail=yes/acme/d", "", 400, []string{"X-Forwarded-Uri", "/"}},
		{"accel to another host", "accel=http:evil/acme/d", "", 400, []string{"X-Forwarded-Uri", "/"}},
		{"no script", "acme", "", 400, []string{"X-Forwarded-Uri", "/"}},
		{"no name", "Acme/D", "", 400, []string{"X-Forwarded-Uri", "/"}},
	} {
		got = asked{}
		resp, body := ask(t, client, http.MethodPost, "/v1/decide/"+tt.path, tt.body, tt.headers...)
		if resp.status != tt.status || resp.header.Get("Scriptorium-Reason") != "INVALID" || got.Tenant != "" {
			t.Errorf("%s: %d %s %s; asked %+v", tt.name, resp.status, resp.header, body, got)
		}
	}
}

// TestDecideForOthers: a caller without a grant gets no decision.
func TestDecideForOthers(t *testing.T) {
	var result string
	var got asked
	access, err := gateway.ParseAccess([]string{"uid:4242=*"})
	if err != nil {
		t.Fatal(err)
	}
	x := deciding(&result, &got)
	x.SetOnError("acme/d", script.OnError{Policy: script.PolicyOpen})
	_, _, client := serve(t, httpsock.Options{Executor: x, Access: access})
	resp, _ := ask(t, client, http.MethodGet, "/v1/decide/fail=open/acme/d", "", "X-Forwarded-Uri", "/")
	if resp.status != http.StatusOK || resp.header.Get("Scriptorium-Reason") != "DENIED" || got.Tenant != "" {
		t.Errorf("a gateway that fails open: %d %s; asked %+v", resp.status, resp.header, got)
	}
	resp, _ = ask(t, client, http.MethodGet, "/v1/decide/acme/d", "", "X-Forwarded-Uri", "/")
	if resp.status != http.StatusServiceUnavailable || resp.header.Get("Scriptorium-Reason") != "DENIED" || got.Tenant != "" {
		t.Errorf("%d %s; asked %+v", resp.status, resp.header, got)
	}
}
