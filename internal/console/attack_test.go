package console_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

const service = "/scriptorium.registry.v1.Registry/"

// send sends a request with headers, and returns the answer, whose body was read.
func (f *fixture) send(browser *http.Client, method, path, body string, headers ...string) (*http.Response, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.URL()+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := browser.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp, string(text)
}

// TestOtherSites: no page of another site has the browser do anything, with the session's cookie or without.
func TestOtherSites(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	publish := `{"tenant":"acme","name":"evil","author":"x","source":"cmV0dXJuIDE="}`
	for name, headers := range map[string][]string{
		"another origin":          {"Origin", "https://evil.example", "Content-Type", "application/json"},
		"no origin":               {"Origin", "null", "Content-Type", "application/json"},
		"another port":            {"Origin", "http://127.0.0.1:1", "Content-Type", "application/json"},
		"cross-site":              {"Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"},
		"same-site":               {"Sec-Fetch-Site", "same-site", "Content-Type", "application/json"},
		"a form":                  {"Content-Type", "application/x-www-form-urlencoded"},
		"a form with a file":      {"Content-Type", "multipart/form-data; boundary=x"},
		"text":                    {"Content-Type", "text/plain"},
		"text that says JSON":     {"Content-Type", "text/plain; application/json"},
		"no type":                 {},
		"gRPC":                    {"Content-Type", "application/grpc"},
		"gRPC-Web":                {"Content-Type", "application/grpc-web+proto"},
		"a method override":       {"Content-Type", "text/plain", "X-HTTP-Method-Override", "POST"},
		"cross-site with referer": {"Sec-Fetch-Site", "cross-site", "Referer", f.URL(), "Content-Type", "application/proto"},
	} {
		for _, path := range []string{service + "Publish", "/session"} {
			resp, text := f.send(browser, http.MethodPost, path, publish, headers...) //nolint:bodyclose // send closes it
			if resp.StatusCode < 400 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: POST %s: %s %s", name, path, resp.Status, text)
			}
		}
	}
	if resp, _ := f.send(browser, http.MethodDelete, "/session", "", "Sec-Fetch-Site", "cross-site"); resp.StatusCode != http.StatusForbidden { //nolint:bodyclose // send closes it
		t.Errorf("another site signs out: %s", resp.Status)
	}
	if resp, _ := f.send(browser, http.MethodOptions, service+"Publish", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); resp.StatusCode < 400 { //nolint:bodyclose // send closes it
		t.Errorf("a preflight: %s", resp.Status)
	}
	for _, query := range []string{"", "?connect=v1&encoding=json&message=%7B%7D"} {
		if resp, _ := f.send(browser, http.MethodGet, service+"ListTenants"+query, ""); resp.StatusCode < 400 { //nolint:bodyclose // send closes it
			t.Errorf("GET of a method: %s", resp.Status)
		}
	}
	listed, err := call[registryv1.ListRequest, registryv1.ListResponse](f, browser, "List", &registryv1.ListRequest{})
	if err != nil || len(listed.GetReleases()) != 0 {
		t.Errorf("%v, %v: want no script", listed, err)
	}
	// A browser of our own page has these.
	resp, text := f.send(browser, http.MethodPost, service+"List", "{}", "Origin", f.URL(), "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json") //nolint:bodyclose // send closes it
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the console's own page: %s %s", resp.Status, text)
	}
}

// TestOtherNames: a console for this machine has no other name, so that no page of another name gets its origin.
func TestOtherNames(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	for host, ok := range map[string]bool{
		"127.0.0.1:80": true, "localhost": true, "LOCALHOST:1": true, "[::1]:80": true,
		"evil.example": false, "evil.example:80": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "0.0.0.0": false, "10.0.0.1:80": false,
	} {
		for _, path := range []string{"/", "/session"} {
			resp, _ := f.send(browser, http.MethodGet, path, "", "Host", host) //nolint:bodyclose // send closes it
			if ok != (resp.StatusCode == http.StatusOK) || !ok && resp.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("GET %s of %s: %s", path, host, resp.Status)
			}
		}
	}
	behind := start(t, startRegistry(t).RegistryTarget(), func(_ *console.Config, at *console.Site) { at.URL = "https://console.example" })
	direct := "http://" + behind.Addr().String()
	for host, want := range map[string]int{"console.example": http.StatusOK, "127.0.0.1": http.StatusMisdirectedRequest, "console.example:8080": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, direct+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || resp.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("behind a proxy, %s: %s, %q", host, resp.Status, resp.Header.Get("Strict-Transport-Security"))
		}
	}
}

// TestHeaders: what all answers have.
func TestHeaders(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Strict-Transport-Security": "",
	}
	for _, path := range []string{"/", "/signin/", "/none", "/build/q-12345678.js", "/session", service + "List"} {
		method := map[bool]string{true: http.MethodPost, false: http.MethodGet}[strings.HasPrefix(path, service)]
		resp, _ := f.send(browser, method, path, "{}", "Content-Type", "application/json") //nolint:bodyclose // send closes it
		for name, value := range want {
			if got := resp.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", path, name, got, value)
			}
		}
		caching := map[string]string{"/session": "no-store", service + "List": "no-store", "/": "no-cache", "/signin/": "no-cache", "/build/q-12345678.js": "public, max-age=31536000, immutable"}[path]
		if got := resp.Header.Get("Cache-Control"); got != caching && caching != "" {
			t.Errorf("%s: Cache-Control is %q, want %q", path, got, caching)
		}
	}
}

// TestMethods: browsers have the registry's service for people, and nothing else that a registry serves.
func TestMethods(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	for _, path := range []string{
		"/scriptorium.registry.v1.Feed/Pull", "/scriptorium.registry.v1.Feed/Sync", "/scriptorium.registry.v1.Feed/FetchSources", service + "Import", service + "None",
		"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/metrics", "//scriptorium.registry.v1.Feed/Pull", service + "../Feed/Pull",
	} {
		resp, text := f.send(browser, http.MethodPost, path, "{}", "Content-Type", "application/json") //nolint:bodyclose // send closes it
		if resp.StatusCode != http.StatusNotImplemented && resp.StatusCode != http.StatusMethodNotAllowed && resp.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("POST %s: %s %s", path, resp.Status, text)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz"} {
		if resp, _ := f.send(browser, http.MethodGet, path, ""); resp.StatusCode != http.StatusNotFound { //nolint:bodyclose // send closes it
			t.Errorf("GET %s: %s", path, resp.Status)
		}
	}
}

// TestErrors checks that errors of the registry and of the console look the same.
func TestErrors(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	_, err := call[registryv1.PublishRequest, registryv1.PublishResponse](f, browser, "Publish", &registryv1.PublishRequest{Tenant: "acme", Name: "x", Author: "a", Source: []byte("return (")})
	if d := detail(t, err); d.GetKind() != "SCRIPT" || d.GetLine() != 1 || connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("%v, %v", err, d)
	}
	_, err = call[registryv1.ListRequest, registryv1.ListResponse](f, f.browser(), "List", &registryv1.ListRequest{})
	if d := detail(t, err); d.GetKind() != "DENIED" || connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("%v, %v", err, d)
	}
	stream, err := watch(t.Context(), f, f.browser())
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() {
		t.Fatal("a stream without a session")
	}
	if d := detail(t, stream.Err()); d.GetKind() != "DENIED" || connect.CodeOf(stream.Err()) != connect.CodeUnauthenticated {
		t.Errorf("%v, %v", stream.Err(), d)
	}
	_, err = call[registryv1.PublishRequest, registryv1.PublishResponse](f, browser, "Publish", &registryv1.PublishRequest{Tenant: "acme", Name: "x", Author: "a", Source: bytes.Repeat([]byte("x"), 5<<20)})
	if d := detail(t, err); d.GetKind() != "LIMIT" {
		t.Errorf("a large body: %v, %v", err, d)
	}
	resp, text := f.send(browser, http.MethodPost, "/session", `{"token":"`+strings.Repeat("x", 20<<10)+`"}`, "Content-Type", "application/json") //nolint:bodyclose // send closes it
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "bytes at most") {
		t.Errorf("a large sign-in: %s %s", resp.Status, text)
	}
}

// TestPaths: files of the web application are served, and no others.
func TestPaths(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.browser()
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]int{
		"/": 200, "/signin/": 200, "/signin": 301, "/build/q-12345678.js": 200,
		"/build/": 404, "/build": 404, "/../../etc/passwd": 404, "/%2e%2e/%2e%2e/etc/passwd": 404, "/..%2f..%2fetc/passwd": 404, "/build/..%5c..%5cetc": 404,
		"/.git/config": 404, "/%00": 404, "/assets/secret/.token": 404, "/signin/index.html": 200,
	} {
		resp, text := f.send(browser, http.MethodGet, path, "") //nolint:bodyclose // send closes it
		got := resp.StatusCode
		ledAway := want == 404 && (got == 301 || got == 307) && isLocal(resp.Header.Get("Location"))
		if got != want && !ledAway {
			t.Errorf("GET %s: %s %.100s", path, resp.Status, text)
		}
	}
	for _, path := range []string{"//evil.example/signin", "//evil.example/%2e%2e/signin", "/\\evil.example/signin", "/signin?//evil.example", "/%2f%2fevil.example/../signin"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = path
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if to := resp.Header.Get("Location"); to != "" && !isLocal(to) {
			t.Errorf("GET %s leads to %s", path, to)
		}
	}
}

// isLocal reports whether a browser stays on the site.
func isLocal(to string) bool {
	return strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.HasPrefix(to, "/\\")
}

// TestGuesses: nobody guesses a code or a token, and who tries does not keep others out for long.
func TestGuesses(t *testing.T) {
	const token = "a-token-of-ann-that-is-long-enough"
	policy := fmt.Sprintf("subjects:\n- {name: ann, tokens: ['sha256:%x'], grants: [{roles: [read], tenants: [acme]}]}\n- {name: self, uids: [%d], grants: [{roles: [admin], tenants: ['*']}]}\n", sha256.Sum256([]byte(token)), os.Getuid())
	f := start(t, startRegistry(t, withPolicy(t, policy)).RegistryTarget())
	for _, guess := range []string{`{"code":"AAAA-AAA%d"}`, `{"token":"a-token-that-somebody-guesses-%d"}`} {
		refused := 0
		for i := range 30 {
			resp := f.post(f.browser(), "/session", fmt.Sprintf(guess, i)) //nolint:bodyclose // send closes it
			switch resp.StatusCode {
			case http.StatusTooManyRequests:
				refused++
			case http.StatusUnauthorized:
			default:
				t.Fatalf("guess %d: %s", i, resp.Status)
			}
		}
		if refused < 20 {
			t.Errorf("%d of 30 guesses were refused unseen, want 20", refused)
		}
		if resp := f.post(f.browser(), "/session", `{"token":"`+token+`"}`); resp.StatusCode != http.StatusTooManyRequests { //nolint:bodyclose // send closes it
			t.Errorf("the right token after too many guesses: %s", resp.Status)
		}
		f.clock.move(time.Minute)
	}
	for range 50 { // who is right may sign in as often as they like
		if resp := f.post(f.browser(), "/session", `{"token":"`+token+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // send closes it
			t.Fatalf("sign in again: %s", resp.Status)
		}
	}
	code := f.codes.get()
	if resp := f.post(f.browser(), "/session", `{"code":" `+strings.ToLower(strings.ReplaceAll(code, "-", ""))+`"}`); resp.StatusCode != http.StatusNoContent { //nolint:bodyclose // send closes it
		t.Errorf("a code as people type it: %s", resp.Status)
	}
	if log := f.log.String(); strings.Contains(log, token) || strings.Contains(log, code) || !strings.Contains(log, "caller=ann") || !strings.Contains(log, "peer=127.0.0.1") {
		t.Errorf("the log has a secret, or does not say who signed in from where:\n%s", log)
	}
}

// TestGuessesFillNoLog: a stranger does not fill the disk with refusals, and who signs in is logged nevertheless.
func TestGuessesFillNoLog(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.browser()
	for range 150 {
		f.send(browser, http.MethodPost, "/session", `{"code":"AAAA-AAAA"}`, "Content-Type", "application/json") //nolint:bodyclose // send closes it
	}
	if n := strings.Count(f.log.String(), "was refused"); n < 10 || n > 100 {
		t.Errorf("of 150 guesses %d are logged", n)
	}
	f.clock.move(time.Minute)
	f.signedIn()
	if !strings.Contains(f.log.String(), "somebody signed in") {
		t.Error("a sign-in is not logged")
	}
}

// TestTokensWithoutAPolicy: a registry that knows no tokens takes any for whom the console is. So the console takes none.
func TestTokensWithoutAPolicy(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	for _, token := range []string{"anything-that-is-long-enough", "x", "a b", "a\\nb: c"} {
		resp := f.post(f.browser(), "/session", `{"token":"`+token+`"}`) //nolint:bodyclose // send closes it
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("token %q: %s", token, resp.Status)
		}
	}
}

// TestARegistryThatIsAway: people hear that it is, and sign in when it is back.
func TestARegistryThatIsAway(t *testing.T) {
	stack := startRegistry(t)
	f := start(t, stack.RegistryTarget())
	browser := f.signedIn()
	stream, err := watch(t.Context(), f, browser)
	if err != nil || !stream.Receive() {
		t.Fatal(err, stream.Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := stack.StopRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
	}
	if got := connect.CodeOf(stream.Err()); got != connect.CodeUnavailable {
		t.Errorf("a stream of a registry that stops: %v", stream.Err())
	}
	if _, err := call[registryv1.ListRequest, registryv1.ListResponse](f, browser, "List", &registryv1.ListRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a call: %v", err)
	}
	if resp := f.post(f.browser(), "/session", `{"code":"`+f.codes.get()+`"}`); resp.StatusCode != http.StatusServiceUnavailable { //nolint:bodyclose // send closes it
		t.Errorf("sign in: %s", resp.Status)
	}
	if err := stack.StartRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		f.clock.move(time.Second / 50) // as often as a session can call
		if _, err = call[registryv1.ListRequest, registryv1.ListResponse](f, browser, "List", &registryv1.ListRequest{}); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Errorf("the session does not go on: %v", err)
	}
}
