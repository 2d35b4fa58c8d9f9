package sdk_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/engine/enginetest"
	"github.com/scriptorium-dev/scriptorium/internal/sdkbuild"
	"github.com/scriptorium-dev/scriptorium/script"
)

// long is a text for which the first buffer of an SDK is too small.
var long = strings.Repeat("é", 5000)

// answered are the requests of the example everything, with their decisions.
var answered = []struct{ name, request, want string }{
	{"nothing", `{"path":"/nothing"}`, ``},
	{"deny", `{"path":"/deny","body":"not \"you\"\n\u0001"}`, `{"allow":false,"status":403,"body":"not \"you\"\n\u0001"}`},
	{"redirect", `{"path":"/redirect"}`, `{"redirect":"/login","status":303}`},
	{"decision", `{"path":"/decision"}`, `{
		"upstream":"cart","path":"/v2","query":"a=1",
		"headers":{"set":{"x-user":"\"bob\""},"append":{"via":["a","b"]},"remove":["x-old"]},
		"response_headers":{"set":{"x-frame-options":"DENY"},"append":{"link":"<a>"},"remove":["server"]},
		"cookies":[{"name":"session","value":"42","path":"/a","max_age":0,"same_site":"strict","secure":false}],
		"vary":["accept"],"rate_limit":{"limit":10,"remaining":9,"reset":1},"metadata":{"variant":"b\n\u0001é"}}`},
	{"config", `{"path":"/config"}`, `{"metadata":{"config":{"limit":10,"names":["a","b"]}}}`},
	{"value", `{"path":"/kv","body":"motd"}`, `{"metadata":{"content":"hello"}}`},
	{"empty value", `{"path":"/kv","body":"empty"}`, `{"metadata":{"content":""}}`},
	{"long value", `{"path":"/kv","body":"long"}`, `{"metadata":{"content":"` + long + `"}}`},
	{"no value", `{"path":"/kv","body":"none"}`, `{"metadata":{"missing":"none"}}`},
	{"keys", `{"path":"/keys","body":"users/","query":"users/ann"}`, `{"metadata":{"users/bob":"there","users/carl":"there"}}`},
	{"no keys", `{"path":"/keys","body":"none/","query":""}`, `{}`},
	{"counter", `{"path":"/counter","body":"calls"}`, `{"metadata":{"counter":2.5}}`},
	{"counter again", `{"path":"/counter","body":"calls"}`, `{"metadata":{"counter":5}}`},
	{"rate", `{"path":"/ratelimit","body":"full"}`, `{}`},
	{"echo", `{"method":"GET","scheme":"https","host":"shop.example","path":"/a\/b","query":"p=1&&q=a%20b+c%2&q=2","remote_addr":"192.0.2.7",
		"body":"\ud83d\ude00\ud800","tenant":"acme","params":{"mode":"x"},
		"headers":{"x-name":["one","two"],"x-list":["1","2","3"],"cookie":["theme=dark; no; a=\"b\"","b=1;  session=\"42\" ; session=43"]}}`, `{"metadata":{
		"method":"GET","scheme":"https","host":"shop.example","path":"/a/b","query":"p=1&&q=a%20b+c%2&q=2","remote_addr":"192.0.2.7",
		"body":"😀\ufffd","tenant":"acme","header":"one","cookie":"42","param":"a b c%2","values":3,"mode":"x"}}`},
	{"nothing to echo", `{}`, `{"metadata":{
		"method":"","scheme":"","host":"","path":"","query":"","remote_addr":"",
		"body":"","tenant":"","header":"","cookie":"","param":"","values":0,"mode":"none"}}`},
}

// TestFunctions calls each function of each SDK.
func TestFunctions(t *testing.T) {
	e := newEngine(t)
	for _, language := range sdkbuild.Languages() {
		t.Run(language, func(t *testing.T) {
			for _, v := range variants(t, e, language, "everything") {
				t.Run(v.name, func(t *testing.T) {
					answers(t, v.program)
					limited(t, v.program)
					logs(t, v.program)
					failures(t, v.program, language)
				})
			}
		})
	}
}

func answers(t *testing.T, p engine.Program) {
	t.Helper()
	host := &enginetest.Host{Values: map[string]map[string]string{tenant: {
		"motd": "hello", "empty": "", "long": long, "users/ann": "1", "users/bob": "2", "users/carl": "3", "users/dan": "4",
	}}}
	for _, a := range answered {
		result, err := call(t, p, host, `{"limit":10,"names":["a","b"]}`, a.request)
		if err != nil {
			t.Errorf("%s: %v", a.name, err)
			continue
		}
		if d := cmp.Diff(decode(t, a.want), decode(t, result)); d != "" {
			t.Errorf("%s: %s", a.name, d)
		}
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// limited takes tokens until there are none: the host never fills a bucket.
func limited(t *testing.T, p engine.Program) {
	t.Helper()
	host := &enginetest.Host{}
	var result string
	for range 21 {
		var err error
		if result, err = call(t, p, host, "", `{"path":"/ratelimit","body":"client/é"}`); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"allow":false,"status":429,"body":"later","rate_limit":{"limit":20,"remaining":0,"reset":1}}`
	if d := cmp.Diff(decode(t, want), decode(t, result)); d != "" {
		t.Errorf("without tokens: %s", d)
	}
}

func logs(t *testing.T, p engine.Program) {
	t.Helper()
	host := &enginetest.Host{}
	if _, err := call(t, p, host, "", `{"path":"/log","body":"checked in, é"}`); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range host.Lines() {
		got = append(got, string(line.Level)+" "+line.Message)
	}
	if d := cmp.Diff([]string{"info checked in, é", "warn checked in, é", "error checked in, é"}, got); d != "" {
		t.Errorf("log lines: %s", d)
	}
}

// failures end calls, and leave nothing behind for the calls after them.
func failures(t *testing.T, p engine.Program, language string) {
	t.Helper()
	paths := []string{"/fail", "/error"}
	if language == "rust" {
		paths = append(paths, "/panic")
	}
	for _, path := range paths {
		_, err := call(t, p, &enginetest.Host{}, "", `{"path":"`+path+`","body":"no user é"}`)
		if script.KindOf(err) != script.Script || !strings.Contains(err.Error(), "no user é") {
			t.Errorf("%s: got %v (%s), want an error of the script that says: no user é", path, err, script.KindOf(err))
		}
	}
	if _, err := call(t, p, &enginetest.Host{}, "", `{"path":"/counter","body":"not a name"}`); script.KindOf(err) != script.Script || !strings.Contains(err.Error(), "name") {
		t.Errorf("a counter that has no name: %v", err)
	}
	if result, err := call(t, p, &enginetest.Host{}, "", `{"path":"/redirect"}`); err != nil || result == "" {
		t.Errorf("after errors: %s, %v", result, err)
	}
}
