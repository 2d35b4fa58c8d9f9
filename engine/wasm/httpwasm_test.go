package wasm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/http-wasm/http-wasm-guest-tinygo/handler/api" // so that go.mod has the modules that the tests run

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The modules of Go with the ABI's own host, and with what its authors built by TinyGo.
const (
	hostModule  = "github.com/http-wasm/http-wasm-host-go"
	guestModule = "github.com/http-wasm/http-wasm-guest-tinygo"
)

// httpExample reads a file of hostModule, or without dir the guestModule's example with the name.
func httpExample(tb testing.TB, dir, name string) []byte {
	tb.Helper()
	from, path := hostModule, filepath.Join(filepath.FromSlash(dir), name+".wasm")
	if dir == "" {
		from, path = guestModule, filepath.Join("internal", "test", "testdata", "e2e", "tinygo", name, "main.wasm")
	}
	if dir == "" && name == "router" {
		path = filepath.Join("examples", name, "main.wasm")
	}
	cmd := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", from)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("go list: %v", err)
	}
	code, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), path))
	if err != nil {
		tb.Fatal(err)
	}
	return code
}

// httpCall is a call of a module of others.
type httpCall struct {
	config   string
	request  string
	response string // "" for a call about the request

	want  string // the result, or words of the error if it does not begin with {
	lines string // that it logs
}

var httpExamples = []struct {
	dir, name string
	calls     []httpCall
}{
	{"examples", "auth", []httpCall{
		{request: `{"headers":{}}`, want: `{"allow":false,"status":401,"response_headers":{"set":{"www-authenticate":["Basic realm=\"test\""]}}}`},
		{request: `{"headers":{"authorization":["a","b"]}}`, want: `{"allow":false,"status":401,"response_headers":{"set":{"www-authenticate":["Basic realm=\"test\""]}}}`},
		{request: `{"headers":{"authorization":"Basic QWxhZGRpbjpvcGVuIHNlc2FtZT=="}}`, want: `{"allow":false,"status":401}`},
		{request: `{"headers":{"authorization":"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}}`, want: `{"allow":true}`},
		{request: `{"headers":{"Authorization":"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}}`, want: `{"allow":true}`},
		{request: `{}`, response: `{"status":200}`, want: `{"allow":true}`},
	}},
	{"examples", "router", []httpCall{
		{request: `{"path":"/host/a","query":"x=1"}`, want: `{"allow":true,"path":"/a","query":"x=1"}`},
		{request: `{"path":"/host"}`, want: `{"allow":true,"path":"/","query":""}`},
		{request: `{"path":"/hosta"}`, want: "invalid URI"},
		{request: `{"path":"/"}`, want: `{"allow":false,"status":200,"body":"hello world","response_headers":{"set":{"content-type":["text/plain"]}}}`},
	}},
	{"", "router", []httpCall{
		{request: `{"path":"/host/a","query":"x=1"}`, want: `{"allow":true,"path":"/a","query":"x=1"}`},
		{request: `{"path":"/"}`, want: `{"allow":false,"status":200,"body":"hello","response_headers":{"set":{"content-type":["text/plain"]}}}`},
	}},
	{"examples", "config", []httpCall{
		{config: `{"http_wasm":"\u0000\u0000\u0000\u0000\u0000\u0000\u0000\u0000"}`, request: `{}`, want: `{"allow":true}`},
		{config: `{"http_wasm":"\u0003\u0000\u0000\u0000\u0000\u0000\u0000\u0000"}`, request: `{}`, want: `{"allow":true}`},
		{config: `{"http_wasm":"\u0004\u0000\u0000\u0000\u0000\u0000\u0000\u0000"}`, request: `{}`, want: "unreachable"}, // trailers
		{config: `{"a":1}`, request: `{}`, want: "unreachable"},
		{config: `{"abc":1}`, request: `{}`, want: "unreachable"},
		{config: `{"http_wasm":1}`, request: `{}`, want: "config.http_wasm: want text"},
	}},
	{"examples", "log", []httpCall{{request: `{}`, want: `{"allow":true}`, lines: "info hello world"}}},
	{"", "log", []httpCall{
		{request: `{}`, want: `{"allow":true}`, lines: "info before"},
		{request: `{}`, response: `{}`, want: `{"allow":true}`, lines: "info after"},
	}},
	{"examples", "redact", []httpCall{
		{request: `{"body":"a secret"}`, want: "unreachable"},
		{config: `{"http_wasm":"open sesame"}`, request: `{"body":""}`, want: `{"allow":true}`},
		{config: `{"http_wasm":"secrets"}`, request: `{"body":"my secrets"}`, want: "write_body: a decision cannot change the body of a request"},
		{config: `{"http_wasm":"secrets"}`, request: `{}`, response: `{"status":200,"body":"my secrets"}`, want: `{"allow":true,"body":"my #######"}`},
	}},
	{"examples", "wasi", []httpCall{
		{
			request: `{"method":"POST","path":"/a","query":"b","host":"h","headers":{"x":["1","2"]},"body":"text"}`, want: `{"allow":true}`,
			lines: "info POST /a?b HTTP/1.1, info host: h, info x: 1, info x: 2, info text",
		},
		{
			request: `{"method":"GET","path":"/a","headers":{}}`, response: `{"status":404,"headers":{"y":"3"},"body":"none"}`, want: `{"allow":true}`,
			lines: "info HTTP/1.1 404, info y: 3, info none",
		},
	}},
	{"", "features", []httpCall{{request: `{}`, want: `{"allow":false,"status":200,"body":"buffer_request|buffer_response"}`}}},
	{"internal/test/testdata/e2e", "handle_response", []httpCall{
		{request: `{}`, want: `{"allow":true}`},
		{request: `{}`, response: `{}`, want: `{"allow":true}`},
	}},
	{"", "handle_response", []httpCall{
		{request: `{}`, want: `{"allow":true}`},
		{request: `{}`, response: `{"body":"before"}`, want: `{"allow":true,"body":"43"}`},
	}},
	{"internal/test/testdata/e2e", "protocol_version", []httpCall{{request: `{}`, want: `{"allow":false,"status":200,"body":"HTTP/1.1"}`}}},
	{"internal/test/testdata/e2e", "header_names", []httpCall{{request: `{"headers":{"x-b":"1","x-a":"2"}}`, want: `{"allow":true}`}}},
	{"internal/test/testdata/error", "panic_on_start", []httpCall{{request: `{}`, want: "trapped in main"}}},
	{"internal/test/testdata/error", "panic_on_handle_request", []httpCall{{request: `{}`, want: "trapped in handle_request", lines: "info panic!"}}},
	{"internal/test/testdata/error", "panic_on_handle_response", []httpCall{
		{request: `{}`, want: `{"allow":true}`},
		{request: `{}`, response: `{}`, want: "trapped in handle_response", lines: "info panic!"},
	}},
	{"internal/test/testdata/error", "set_request_header_after_next", []httpCall{
		{request: `{}`, want: `{"allow":true}`},
		{request: `{}`, response: `{}`, want: "set_header_value: the headers of the request cannot change in handle_response"},
	}},
}

// TestHTTPWasmExamples runs modules that others have built for other hosts.
func TestHTTPWasmExamples(t *testing.T) {
	e := newEngine(t)
	for _, example := range httpExamples {
		t.Run(example.dir+"/"+example.name, func(t *testing.T) {
			code := httpExample(t, example.dir, example.name)
			for _, reuse := range []bool{false, true} {
				p := compile(t, e, code, reuse)
				if !p.OnResponse() {
					t.Error("it has no handle_response")
				}
				for range 2 {
					for _, c := range example.calls {
						c.check(t, p)
					}
				}
			}
		})
	}
}

func (c httpCall) check(t *testing.T, p engine.Program) {
	t.Helper()
	host := &enginetest.Host{}
	inv := invocation(c.request)
	if inv.Host, inv.Config = host, []byte(c.config); c.response != "" {
		inv.OnResponse, inv.Args = true, append(inv.Args, []byte(c.response))
	}
	got, err := run(t, p, inv)
	switch {
	case err == nil && got != c.want:
		t.Errorf("%+v: %s", c, got)
	case err == nil && c.response == "":
		if _, err := decision.Parse([]byte(got)); err != nil {
			t.Errorf("%+v: gateways refuse it: %v", c, err)
		}
	case err == nil:
		if _, err := decision.ParseOutcome([]byte(got)); err != nil {
			t.Errorf("%+v: gateways refuse it: %v", c, err)
		}
	case !strings.Contains(err.Error(), c.want) || script.KindOf(err) != script.Script:
		t.Errorf("%+v: %v", c, err)
	}
	var lines []string
	for _, l := range host.Lines() {
		lines = append(lines, string(l.Level)+" "+l.Message)
	}
	if got := strings.Join(lines, ", "); got != c.lines {
		t.Errorf("%+v: logged %q", c, got)
	}
}
