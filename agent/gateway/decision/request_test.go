package decision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
)

func TestArgument(t *testing.T) {
	r := decision.Request{
		Method: "POST", Scheme: "https", Host: "shop.example", Path: "/a//../%61dmin/%2fx", Query: "q=%22a%22", RemoteAddr: "192.0.2.7",
		Headers: map[string][]string{"X-User": {`a"n\n`}, "x-user": {"bob"}, "Accept": {"text/html"}, "Empty": nil, "X-U\u017fER": {"eve"}, "\u0130D": {"mallory"}, "id": {"1"}},
		Body:    []byte("a\xffb\n"), HasBody: true, ClientCertificate: "CN=ann", Route: "cart", Params: map[string]string{"env": "prod"},
	}
	const want = `{"tenant":"acme","method":"POST","scheme":"https","host":"shop.example","path":"/admin/%2Fx","raw_path":"/a//../%61dmin/%2fx",` +
		`"query":"q=%22a%22","remote_addr":"192.0.2.7","client_certificate":"CN=ann","route":"cart",` +
		`"headers":{"accept":"text/html","id":"1","x-user":["a\"n\\n","bob"],"x-uſer":"eve","İd":"mallory"},"body":"a\ufffdb\n","params":{"env":"prod"}}`
	if got := string(r.Argument(nil, "acme")); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	const least = `{"tenant":"acme","method":"","scheme":"","host":"","path":"","query":"","remote_addr":"","headers":{},"params":{}}`
	if got := string(new(decision.Request).Argument(nil, "acme")); got != least {
		t.Errorf("\n%s\nwant\n%s", got, least)
	}
}

func TestPaths(t *testing.T) {
	for raw, want := range map[string]string{
		"/": "/", "/a": "/a", "/a/": "/a/", "//a": "/a", "/a/./b": "/a/b", "/a/..": "/", "/a/b/..": "/a/", "/a/.": "/a/", "/../..": "/",
		"/%61dmin": "/admin", "/%2561dmin": "/%2561dmin", "/a%2fb": "/a%2Fb", "/%2e%2e/admin": "/admin", "/%": "/%", "/%4": "/%4", "/%zz": "/%zz", "/%7e%2D": "/~-",
		"*": "*", "": "", "/a%00": "/a%00",
	} {
		r := decision.Request{Path: raw}
		var got struct {
			Path string `json:"path"`
		}
		if err := json.Unmarshal(r.Argument(nil, "acme"), &got); err != nil || got.Path != want {
			t.Errorf("%q: %q, %v; want %q", raw, got.Path, err, want)
		}
	}
}

// FuzzArgument: whatever a client sends, a script gets one JSON object, and a path that is clean.
func FuzzArgument(f *testing.F) {
	f.Add("/a/../b", "q", "x-a", "1", []byte("body"))
	f.Add("/%2e%2e/%41", "\x00", "\xff", `"\`, []byte{0xff})
	f.Fuzz(func(t *testing.T, path, query, name, value string, body []byte) {
		r := decision.Request{Path: path, Query: query, Headers: map[string][]string{name: {value, value}, "x": {value}}, Body: body, HasBody: true}
		var got struct {
			Path string `json:"path"`
		}
		arg := r.Argument(nil, "acme")
		if err := json.Unmarshal(arg, &got); err != nil {
			t.Fatalf("%s: %v", arg, err)
		}
		r.Path = got.Path
		var again struct {
			Path string `json:"path"`
		}
		if err := json.Unmarshal(r.Argument(nil, "acme"), &again); err != nil || again != got {
			t.Errorf("%q becomes %q, and then %q, %v", path, got.Path, again.Path, err)
		}
	})
}

func BenchmarkArgument(b *testing.B) {
	r := decision.Request{Method: "GET", Scheme: "https", Host: "shop.example", Path: "/cart", RemoteAddr: "192.0.2.7", Headers: map[string][]string{}}
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Cookie", "Referer", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "User-Agent", "X-Forwarded-For"} {
		r.Headers[name] = []string{"text/html,application/xhtml+xml;q=0.9"}
	}
	var dst []byte
	for b.Loop() {
		dst = r.Argument(dst[:0], "acme")
	}
}

// TestArgumentTakesWhatItSays: callers are charged for it before it is made, whatever a client
// sends, so it takes that and no more.
func TestArgumentTakesWhatItSays(t *testing.T) {
	for _, unit := range []string{"x", "\x01", "\xff", "\xe2\x82", "<", "\"", "\n", "€", "\u2028", "\x7f", "😀", "Ⱥ"} {
		text := strings.Repeat(unit, 16<<10)
		r := decision.Request{
			Method: text, Path: "/" + text, Query: text, Headers: map[string][]string{text: {text, text}, "x": {text}, "y": nil},
			Body: []byte(text), HasBody: true, Route: text, Params: map[string]string{text: text},
		}
		var arg []byte
		says := r.ArgumentBytes()
		arg = r.Argument(nil, strings.Repeat("t", 63))
		if len(arg) > says || len(arg) < says*4/5 {
			t.Errorf("%q: %d bytes; says %d", unit, len(arg), says)
		}
		if cap(arg) > says+says/8+1024 {
			t.Errorf("%q: takes %d bytes; says %d", unit, cap(arg), says)
		}
		var got struct {
			Body string `json:"body"`
		}
		if err := json.Unmarshal(arg, &got); err != nil || got.Body != strings.ToValidUTF8(text, "\ufffd") && got.Body != strings.Repeat("\ufffd", len(text)) {
			t.Errorf("%q: %v, body %.20q", unit, err, got.Body)
		}
	}
}
