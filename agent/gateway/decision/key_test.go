package decision_test

import (
	"strings"
	"testing"

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
		if got := r.Key(source); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
	long := strings.Repeat("x", 64<<10)
	r = &decision.Request{Query: long + "&id=1", Headers: map[string][]string{"cookie": {long, "id=1"}}}
	for _, source := range []script.KeySource{"request.cookies.id", "request.query_params.id"} {
		if got := r.Key(source); got != "" {
			t.Errorf("%s: %q is behind 64 KiB, which no script sees", source, got)
		}
	}
}
