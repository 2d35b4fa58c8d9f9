package decision_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// FuzzKeysAgree: the key of a request is the same however many others the agent has looked for before it.
// Lines of headers are "name: value".
func FuzzKeysAgree(f *testing.F) {
	for _, seed := range [][3]string{
		{"user", "user=1&us%65r=2&&=&user", "User: ann\nuser:\nCookie: user=1; user=2"},
		{"user", "%75ser=a+b%", "u\u017fer: ann\nuser: bob"},
		{"key", "key=%4b", "\u212aey: ann\ncoo\u212aie: key=\"1\"\nCookie: key=2;"},
		{"a", strings.Repeat("a&", 300), "cookie: " + strings.Repeat("b=1;", 255) + "a=1;a=2"},
		{"a%62", "a%62=1&a%2562=2", "COOKIE: a%62=\x01;a%62=\"\nCookie: \t a%62 = \t x"},
		{"x", strings.Repeat("y", 64<<10-4) + "&x=1", "Cookie: " + strings.Repeat("y", 64<<10-4) + ";x=1"},
		{"id", "id=1&\u0130d=2", "\u0130d: ann\ncook\u0130e: id=1\nCookie: id=2"},
		{"x\xff", "x%ff=1", "x\xff: 1\nX\xfe: 2\nx\ufffd: 3"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, name, query, lines string) {
		headers := map[string][]string{}
		for line := range strings.SplitSeq(lines, "\n") {
			of, value, ok := strings.Cut(line, ": ")
			headers[of] = headers[of][:len(headers[of]):len(headers[of])]
			if ok {
				headers[of] = append(headers[of], value)
			}
		}
		for _, part := range []script.KeyPart{script.KeyHeader, script.KeyCookie, script.KeyQuery} {
			source, err := script.ParseKeySource("key", "request."+string(part)+"."+name)
			if err != nil {
				continue
			}
			r := &decision.Request{Query: query, Headers: headers}
			want := r.Key(source)
			if seen := headerOf(t, r, name); part == script.KeyHeader && utf8.ValidString(want) && want != "" && seen != want {
				t.Fatalf("%s is %q, and scripts see %q", source, want, seen)
			}
			for range 9 {
				if got := r.Key(source); got != want {
					t.Fatalf("%s is %q, and %q behind others", source, want, got)
				}
			}
		}
	})
}

// headerOf returns the only value of the header as scripts see it.
func headerOf(t *testing.T, r *decision.Request, name string) string {
	t.Helper()
	var seen struct{ Headers map[string]any }
	if err := json.Unmarshal(r.Argument(nil, "acme"), &seen); err != nil {
		t.Fatal(err)
	}
	value, _ := seen.Headers[strings.ToLower(name)].(string)
	return value
}
