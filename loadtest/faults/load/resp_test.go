package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/loadtest/faults/history"
)

func TestReadReply(t *testing.T) {
	for in, want := range map[string]string{
		"+PONG\r\n":       "PONG",
		":-7\r\n":         "-7",
		"$3\r\na\r\n\r\n": "a\r\n",
		"$-1\r\n":         "<nil>",
		"*4\r\n:7\r\n$1\r\nd\r\n:0\r\n*1\r\n$-1\r\n": "[7 d 0 [<nil>]]",
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(in)), 0)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", in, got, err, want)
		}
	}
	_, err := readReply(bufio.NewReader(strings.NewReader("-NOTFOUND no such script\r\n")), 0)
	if refused, ok := errors.AsType[refusal](err); !ok || refused != "NOTFOUND no such script" {
		t.Errorf("an error reply: %v", err)
	}
	for _, in := range []string{"", "x\r\n", ":x\r\n", "$9999999999\r\n", "$-2\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "+PONG\n", "$5\r\nab"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(in)), 0); err == nil {
			t.Errorf("%q is read as %v", in, got)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\nx\r\n:1\r\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = readReply(bufio.NewReader(bytes.NewReader(data)), 0) })
}

func TestFromReply(t *testing.T) {
	g := history.Sight{}
	fromReply(&g, []any{int64(3), "sha256:x", int64(0), []any{`"w1-7"`}})
	if g.State != history.Runs || g.Version != 3 || g.Digest != "sha256:x" || g.Proof != "w1-7" {
		t.Errorf("%+v", g)
	}
	for _, reply := range []any{nil, "x", []any{int64(1)}} {
		g := history.Sight{}
		if fromReply(&g, reply); g.State != history.Failed {
			t.Errorf("%v is %+v", reply, g)
		}
	}
}
