package console_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
)

// raw sends the bytes of a request, and returns the answer and what follows it on the connection.
func (f *fixture) raw(text string) (status int, answer string) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		f.t.Fatal(err)
	}
	from := bufio.NewReader(conn)
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, string(body)
}

// TestCookiesOfOthers: a cookie that somebody else has set beside the console's signs nobody out, or in.
func TestCookiesOfOthers(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	cookie := cookieOf(f, f.signedIn())
	own, junk := cookie.Name+"="+cookie.Value, cookie.Name+"=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, tt := range []struct {
		cookies string
		in      bool
	}{
		{own, true},
		{own + "; " + junk, true},
		{junk + "; " + own, true},
		{cookie.Name + "=; " + own, true},
		{cookie.Name + "=" + strings.Repeat("x", 8000) + "; " + own, true},
		{cookie.Name + "=%zz\"; " + own, true},
		{junk, false},
		{junk + "; " + junk, false},
		{"scriptorium=" + cookie.Value, false},
		{"__Host-scriptorium=" + cookie.Value, false},
		{strings.ToUpper(cookie.Name) + "=" + cookie.Value, false},
	} {
		status, text := f.raw("GET /session HTTP/1.1\r\nHost: " + f.Addr().String() + "\r\nCookie: " + tt.cookies + "\r\n\r\n")
		if got := strings.Contains(text, `"signedIn":true`); status != http.StatusOK || got != tt.in {
			t.Errorf("%.120s: %d %s, want signed in: %v", tt.cookies, status, text, tt.in)
		}
	}
}

// TestForwardedHeaders: what a client says of itself in headers counts for nothing.
func TestForwardedHeaders(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.browser()
	refused := 0
	for i := range 30 {
		resp, _ := f.send(browser, http.MethodPost, "/session", `{"code":"AAAAAAAA"}`, "Content-Type", "application/json", //nolint:bodyclose // send closes it
			"X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i), "X-Real-Ip", fmt.Sprintf("192.0.2.%d", i), "Forwarded", fmt.Sprintf("for=192.0.2.%d", i))
		if resp.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 20 {
		t.Errorf("%d of 30 guesses with other X-Forwarded-For were refused", refused)
	}
	if strings.Contains(f.log.String(), "192.0.2.") {
		t.Error("the log has an address that the client made up")
	}
	resp, _ := f.send(browser, http.MethodGet, "/", "", "Host", "evil.example", "X-Forwarded-Host", "127.0.0.1") //nolint:bodyclose // send closes it
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("X-Forwarded-Host: %s", resp.Status)
	}
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, _ = f.send(browser, http.MethodGet, "/signin", "", "X-Forwarded-Host", "evil.example", "X-Forwarded-Prefix", "//evil.example") //nolint:bodyclose // send closes it
	if to := resp.Header.Get("Location"); to != "/signin/" {
		t.Errorf("leads to %s", to)
	}
	for _, text := range []string{
		"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"POST /session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\nX-A: a\r\n b\r\n\r\n0\r\n\r\n",
		"POST /session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: a=" + strings.Repeat("x", 64<<10) + "\r\n\r\n",
	} {
		if status, _ := f.raw(text); status < 400 {
			t.Errorf("%.80q: %d", text, status)
		}
	}
}

// TestEncodedRequests: compressed bodies have the bounds of plain ones.
func TestEncodedRequests(t *testing.T) {
	f := start(t, startRegistry(t).RegistryTarget())
	browser := f.signedIn()
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.String()
	}
	bomb := zip(`{"tenant":"` + strings.Repeat("x", 64<<20) + `"}`)
	for _, tt := range []struct {
		name, body, kind, encoding string
		want                       int
	}{
		{"gzip", zip("{}"), "application/json", "gzip", 200},
		{"a bomb", bomb, "application/json", "gzip", 429},
		{"no gzip", "{}", "application/json", "gzip", 400},
		{"half", zip("{}")[:10], "application/json", "gzip", 400},
		{"unknown", "{}", "application/json", "br", 501},
		{"deep", `{"x":` + strings.Repeat("[", 1<<20), "application/json", "", 400},
		{"not UTF-8", "{\"tenant\":\"\xff\"}", "application/json", "", 400},
	} {
		for _, method := range []string{service + "List", "/scriptorium.console.v1.Manifests/Parse"} {
			headers := []string{"Content-Type", tt.kind}
			if tt.encoding != "" {
				headers = append(headers, "Content-Encoding", tt.encoding)
			}
			resp, text := f.send(browser, http.MethodPost, method, tt.body, headers...) //nolint:bodyclose // send closes it
			if resp.StatusCode != tt.want {
				t.Errorf("%s, %s: %s %.200s, want %d", tt.name, method, resp.Status, text, tt.want)
			}
		}
	}
	for _, body := range []string{"\x0a\xff", "\x0a\x01\xff", "{}"} { // a length beyond the end, text that is not UTF-8, JSON
		for _, call := range [][3]string{
			{"List", "application/proto", body},
			{"WatchStatus", "application/connect+proto", string([]byte{0, 0, 0, 0, byte(len(body))}) + body},
		} {
			resp, text := f.send(browser, http.MethodPost, service+call[0], call[2], "Content-Type", call[1]) //nolint:bodyclose // send closes it
			if !strings.Contains(text, `"code":"invalid_argument"`) {
				t.Errorf("%s of %q: %s %.200q, want invalid_argument", call[0], body, resp.Status, text)
			}
		}
	}
	for _, frame := range []string{"\x01\x00\x00\x00\x05hello", "\x00\xff\xff\xff\xff", "\x02\x00\x00\x00\x02{}", "\x00\x00\x00\x00\x02{}\x00\x00\x00\x00\x02{}", "", "\x00"} {
		resp, text := f.send(browser, http.MethodPost, service+"WatchStatus", frame, "Content-Type", "application/connect+json", "Connect-Timeout-Ms", "500") //nolint:bodyclose // send closes it
		if resp.StatusCode != http.StatusOK || !strings.Contains(text, `"error"`) {
			t.Errorf("a frame %q: %s %.200q", frame, resp.Status, text)
		}
	}
	for _, timeout := range []string{"-1", "99999999999", "x", "0"} {
		if resp, text := f.send(browser, http.MethodPost, service+"List", "{}", "Content-Type", "application/json", "Connect-Timeout-Ms", timeout); resp.StatusCode == http.StatusInternalServerError { //nolint:bodyclose // send closes it
			t.Errorf("Connect-Timeout-Ms %s: %s %s", timeout, resp.Status, text)
		}
	}
	if _, err := call[registryv1.ListRequest, registryv1.ListResponse](f, browser, "List", &registryv1.ListRequest{}); err != nil {
		t.Error(err)
	}
}

// TestCompressedFiles: a browser that does not take gzip gets none, and no answer about a page is kept without asking again.
func TestCompressedFiles(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, "<!doctype html><title>zipped</title>")
	_ = w.Close()
	f := start(t, startRegistry(t).RegistryTarget(), func(cfg *console.Config, _ *console.Site) {
		all := assets()
		all["zipped/index.html.gz"] = &fstest.MapFile{Data: zipped.Bytes()}
		cfg.Assets = all
	})
	browser := &http.Client{Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for accepted, want := range map[string]string{"gzip": "gzip", "br, gzip;q=0.5": "gzip", "GZIP": "gzip", "gzip;q=0": "", "gzip; q=0.000, br": "", "identity": "", "x-gzip-not": "", "": ""} {
		resp, text := f.send(browser, http.MethodGet, "/zipped/", "", "Accept-Encoding", accepted) //nolint:bodyclose // send closes it
		if got := resp.Header.Get("Content-Encoding"); got != want || want == "" && !strings.Contains(text, "<title>zipped") {
			t.Errorf("Accept-Encoding %q: %q, want %q", accepted, got, want)
		}
	}
	for path, want := range map[string]string{"/zipped": "no-cache", "/zipped/": "no-cache", "/none": "no-store", "//zipped/": "no-cache", "/build/../zipped/": "no-cache"} {
		resp, _ := f.send(browser, http.MethodGet, path, "") //nolint:bodyclose // send closes it
		if got := resp.Header.Get("Cache-Control"); got != want {
			t.Errorf("GET %s: %s, Cache-Control is %q, want %q", path, resp.Status, got, want)
		}
	}
}
