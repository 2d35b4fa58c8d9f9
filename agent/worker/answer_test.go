package worker

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	workerv1 "github.com/scriptorium-dev/scriptorium/proto/worker/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestBelieve: a process that was taken over answers what it likes.
func TestBelieve(t *testing.T) {
	const most = 1000
	for name, tt := range map[string]struct {
		resp *workerv1.ExecuteResponse
		kind script.Kind
	}{
		"an answer":            {&workerv1.ExecuteResponse{Results: [][]byte{[]byte("1"), []byte("2")}}, ""},
		"an error":             {&workerv1.ExecuteResponse{Error: &scriptv1.Error{Kind: "SCRIPT", Message: "x"}}, script.Script},
		"no kind":              {&workerv1.ExecuteResponse{Error: &scriptv1.Error{Message: "x"}}, script.Internal},
		"a kind of its own":    {&workerv1.ExecuteResponse{Error: &scriptv1.Error{Kind: "A\r\n+OK\r\n", Message: "x"}}, script.Internal},
		"a long message":       {&workerv1.ExecuteResponse{Error: &scriptv1.Error{Kind: "LIMIT", Message: strings.Repeat("é", 1<<20), Field: strings.Repeat("f", 1<<20), Line: -1}}, script.Limit},
		"a message of no text": {&workerv1.ExecuteResponse{Error: &scriptv1.Error{Kind: "LIMIT", Message: "\xff\xfe"}}, script.Limit},
		"too many results":     {&workerv1.ExecuteResponse{Results: make([][]byte, maxResults+1)}, script.Internal},
		"too large results":    {&workerv1.ExecuteResponse{Results: [][]byte{make([]byte, most), make([]byte, 1)}}, script.Internal},
		"no digest":            {&workerv1.ExecuteResponse{Digest: []byte("short")}, script.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			var reply gateway.Reply
			err := believe(tt.resp, most, &reply)
			if script.KindOf(err) != tt.kind {
				t.Fatalf("got %v, want %s", err, tt.kind)
			}
			if err == nil {
				if reply.Len() != 2 {
					t.Errorf("%d results", reply.Len())
				}
				return
			}
			if text := err.Error(); len(text) > maxSaid+maxField+2 || !utf8.ValidString(text) || reply.Len() != 0 {
				t.Errorf("%d bytes of an error, %d results", len(text), reply.Len())
			}
		})
	}
}
