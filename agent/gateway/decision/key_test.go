package decision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestKeysOfRequests: what the plan of a rollout may take as a key is what a script sees. What comes
// twice is none, so that a client does not choose between two.
func TestKeysOfRequests(t *testing.T) {
	r := &decision.Request{
		Query: "id=a%20b&twice=1&tag=x&twice=2&broken=%zz&i%64=c&=d&e", RemoteAddr: "192.0.2.7",
		Headers: map[string][]string{
			"X-User": {"ann"}, "x-list": {"a", "b"}, "X-Two": {"a"}, "x-two": {"a"}, "X-None": {},
			"Cookie": {`a=1; session="s 1"; Session=other; session=2;b`},
		},
	}
	for source, want := range map[script.KeySource]string{
		"request.headers.x-user":      "ann",
		"request.headers.x-list":      "",
		"request.headers.x-two":       "",
		"request.headers.x-none":      "",
		"request.headers.other":       "",
		"request.cookies.session":     "s 1",
		"request.cookies.Session":     "other",
		"request.cookies.a":           "1",
		"request.cookies.b":           "",
		"request.query_params.tag":    "x",
		"request.query_params.twice":  "",
		"request.query_params.broken": "",
		"request.query_params.id":     "", // i%64 is the same name
		"request.query_params.e":      "",
		"request.remote_addr":         "192.0.2.7",
		"":                            "",
	} {
		one := *r
		for range 10 { // an index has the last ones
			if got := one.Key(source); got != want {
				t.Errorf("%s: %q, want %q", source, got, want)
			}
		}
	}
	long := strings.Repeat("x", 64<<10)
	r = &decision.Request{Query: long + "&id=1", Headers: map[string][]string{"cookie": {long, "id=1"}}}
	for _, source := range []script.KeySource{"request.cookies.id", "request.query_params.id", "request.cookies.id", "request.query_params.id", "request.cookies.id", "request.query_params.id"} {
		if got := r.Key(source); got != "" {
			t.Errorf("%s: %q is behind 64 KiB, which no script sees", source, got)
		}
	}
}

// TestKeysAreWhatScriptsSee also where a client sends what no browser does.
func TestKeysAreWhatScriptsSee(t *testing.T) {
	many := func(separator string) string { return strings.Repeat("x=1"+separator, 256) }
	for what, tt := range map[string]struct {
		query   string
		headers map[string][]string
		source  script.KeySource
		want    string
	}{
		"a cookie that is none":          {headers: map[string][]string{"Cookie": {"id=\x01; id=a\tb; id=2"}}, source: "request.cookies.id", want: "2"},
		"a header of two cases":          {headers: map[string][]string{"cookie": {"id=2"}, "Cookie": {"id=1"}}, source: "request.cookies.id", want: "1"},
		"the other order":                {headers: map[string][]string{"cookie": {"id=1"}, "COOKIE": {"id=2"}}, source: "request.cookies.id", want: "2"},
		"a parameter behind 256":         {query: many("&") + "id=1", source: "request.query_params.id"},
		"no parameter counts":            {query: strings.Repeat("&", 300) + "id=1", source: "request.query_params.id", want: "1"},
		"one of two behind 256":          {query: "id=1&" + many("&") + "id=2", source: "request.query_params.id", want: "1"},
		"a key in escapes":               {query: "id=" + strings.Repeat("%41", script.MaxKeyBytes), source: "request.query_params.id", want: strings.Repeat("A", script.MaxKeyBytes)},
		"a parameter that is longer":     {query: "id=" + strings.Repeat("%41", script.MaxKeyBytes+1), source: "request.query_params.id"},
		"a parameter with a long second": {query: "id=1&id=" + strings.Repeat("%41", 9000), source: "request.query_params.id"},
		"the name in escapes":            {query: "%69%64=1", source: "request.query_params.id", want: "1"},
	} {
		r := &decision.Request{Query: tt.query, Headers: tt.headers}
		for range 20 { // maps have another order each time
			if got := r.Key(tt.source); got != tt.want {
				t.Errorf("%s: %q, want %q", what, got, tt.want)
				break
			}
		}
	}
}

// TestLongNamesAreNotDecoded: an agent looks for a key for each script of a chain, and a client writes
// what it looks through.
func TestLongNamesAreNotDecoded(t *testing.T) {
	r := &decision.Request{Query: strings.Repeat("%41", 9000) + "=1&id=" + strings.Repeat("%41", 9000)}
	if n := testing.AllocsPerRun(10, func() { r.Key("request.query_params.id") }); n != 0 {
		t.Errorf("%v allocations for a query without a key", n)
	}
}

// TestManyKeysOfARequest: a tenant names as many parts of requests as it has scripts on an event, and a
// client sends as many as it likes. One does not multiply the other.
func TestManyKeysOfARequest(t *testing.T) {
	var query, cookies strings.Builder
	headers := map[string][]string{}
	for i := range 255 {
		fmt.Fprintf(&query, "%%6e%060d=1&", i)
		fmt.Fprintf(&cookies, "n%060d=1; ", i)
		headers[fmt.Sprintf("N%060d", i)] = []string{"1"}
	}
	headers["Cookie"] = []string{cookies.String()}
	for _, part := range []script.KeyPart{script.KeyHeader, script.KeyCookie, script.KeyQuery} {
		sources := make([]script.KeySource, script.MaxEventLive)
		for i := range sources {
			sources[i] = script.KeySource(fmt.Sprintf("request.%s.m%060d", part, i))
		}
		took := func(scripts int) time.Duration {
			least := time.Hour
			for range 20 {
				r := &decision.Request{Query: query.String(), Headers: headers}
				start := time.Now()
				for _, source := range sources[:scripts] {
					if key := r.Key(source); key != "" {
						t.Fatalf("%s is %q", source, key)
					}
				}
				least = min(least, time.Since(start))
			}
			return least
		}
		few, all := took(8), took(len(sources))
		t.Logf("%s: %v for 8 scripts, %v for %d", part, few, all, len(sources))
		if all > 8*few {
			t.Errorf("%s: %v for 8 scripts, but %v for %d", part, few, all, len(sources))
		}
	}
}
