package respsock

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in    string
		want  []string // of the first command
		n     int      // -1: all of in
		error string
	}{
		{in: "", n: 0},
		{in: "*", n: 0},
		{in: "*1", n: 0},
		{in: "*1\r", n: 0},
		{in: "*1\r\n", n: 0},
		{in: "*1\r\n$4\r\nPIN", n: 0},
		{in: "*1\r\n$4\r\nPING", n: 0},
		{in: "*1\r\n$4\r\nPING\r", n: 0},
		{in: "*1\r\n$4\r\nPING\r\n", want: []string{"PING"}, n: -1},
		{in: "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n", want: []string{"ECHO", ""}, n: 20},
		{in: "*1\r\n$5\r\na\r\nb\x00\r\n", want: []string{"a\r\nb\x00"}, n: -1},
		{in: "*0\r\n", n: -1},
		{in: "*-1\r\n", n: -1},
		{in: "*x\r\n", error: "invalid multibulk length"},
		{in: "*\r\n", error: "invalid multibulk length"},
		{in: "*-\r\n", error: "invalid multibulk length"},
		{in: "*1\n", error: "invalid multibulk length"},
		{in: "*1\rx", error: "invalid multibulk length"},
		{in: "*99999999999", error: "invalid multibulk length"},
		{in: "*1048576\r\n", error: "invalid multibulk length"},
		{in: "*1\r\nPING\r\n", error: "expected '$', got 'P'"},
		{in: "*1\r\n$-1\r\n", error: "invalid bulk length"},
		{in: "*1\r\n$x\r\n", error: "invalid bulk length"},
		{in: "*1\r\n$99999999\r\n", error: "invalid bulk length"},
		{in: "*1\r\n$4\r\nPINGxx", error: "does not end where its length says"},
		{in: "PING\r\n", want: []string{"PING"}, n: -1},
		{in: "PING\n", want: []string{"PING"}, n: -1},
		{in: "\r\n", n: -1},
		{in: " \t \n", n: -1},
		{in: "PIN", n: 0},
		{in: "FCALL  acme/route 0 '{\"a\": 1}'\r\nPING", want: []string{"FCALL", "acme/route", "0", `{"a": 1}`}, n: 32},
		{in: `ECHO "a\x41\n\"\\ b"` + "\n", want: []string{"ECHO", "aA\n\"\\ b"}, n: -1},
		{in: `ECHO 'a\'b\n'` + "\n", want: []string{"ECHO", `a'b\n`}, n: -1},
		{in: `ECHO "a` + "\n", error: "unbalanced quotes"},
		{in: `ECHO "a"b` + "\n", error: "unbalanced quotes"},
		{in: strings.Repeat("x", maxInline), error: "too big inline request"},
		{in: strings.Repeat("x ", maxElements+1) + "\n", error: "too many words"},
	} {
		name := fmt.Sprintf("%.40q", tt.in)
		t.Run(name, func(t *testing.T) {
			var p parser
			n, err := p.next([]byte(tt.in))
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) {
					t.Fatalf("error %v, want one that says %q", err, tt.error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tt.n
			if want < 0 {
				want = len(tt.in)
			}
			if n != want {
				t.Fatalf("%d bytes were taken, want %d", n, want)
			}
			if n == 0 {
				return
			}
			var got []string
			for _, arg := range p.args {
				got = append(got, string(arg))
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") || len(got) != len(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseBoundsTheWholeRequest(t *testing.T) {
	var in bytes.Buffer
	in.WriteString("*5\r\n")
	for range 4 {
		fmt.Fprintf(&in, "$%d\r\n%s\r\n", maxBulk, strings.Repeat("x", maxBulk))
	}
	var p parser
	if _, err := p.next(in.Bytes()); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v, want %v", err, errTooLarge)
	}
}

// FuzzParse feeds the same bytes at once and in pieces: the commands must be the
// same, and nothing may panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"*3\r\n$5\r\nFCALL\r\n$10\r\nacme/route\r\n$1\r\n0\r\n",
		"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n",
		"PING\r\nECHO \"a\\x00\" 'b'\n\r\n*0\r\n*-1\r\n",
		"*1\r\n$-1\r\n", "*2\r\n$1\r\n", "*99999999999999999999\r\n", "$5\r\nhello\r\n", "\x00\xff\n", "GET / HTTP/1.1\r\n\r\n",
	} {
		f.Add([]byte(seed), uint8(1))
		f.Add([]byte(seed), uint8(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		whole, wholeErr := parseAll(data, len(data)+1)
		pieces, piecesErr := parseAll(data, int(step)+1)
		if whole != pieces {
			t.Fatalf("at once %q\nin pieces %q", whole, pieces)
		}
		if (wholeErr == nil) != (piecesErr == nil) {
			t.Fatalf("at once %v\nin pieces %v", wholeErr, piecesErr)
		}
	})
}

// parseAll parses data as it comes in, step bytes at a time.
func parseAll(data []byte, step int) (commands string, err error) {
	var p parser
	var b strings.Builder
	for start, end := 0, 0; end < len(data); {
		end = min(end+step, len(data))
		for {
			n, err := p.next(data[start:end])
			if err != nil {
				return b.String(), err
			}
			if n == 0 {
				break
			}
			fmt.Fprintf(&b, "%q", p.args)
			start += n
		}
	}
	return b.String(), nil
}

// TestNothingIsParsedTwice: what comes byte by byte costs no more than a few times what it
// costs at once.
func TestNothingIsParsedTwice(t *testing.T) {
	whole := []byte("*" + fmt.Sprint(maxElements) + "\r\n" + strings.Repeat("$1\r\nx\r\n", maxElements))
	var p parser
	for n := range whole {
		buf := bytes.Clone(whole[:n])
		for i := range max(0, n-16) { // had it to read this again, it would fail
			buf[i] = '*'
		}
		if n, err := p.next(buf); n != 0 || err != nil {
			t.Fatalf("of %d bytes: %d, %v", len(buf), n, err)
		}
	}
	if n, err := p.next(whole); n != len(whole) || err != nil || len(p.args) != maxElements {
		t.Errorf("all of it: %d, %v; %d elements", n, err, len(p.args))
	}
	if n, err := p.next([]byte("*1\r\n$4\r\nPING\r\n")); n != 14 || err != nil || len(p.args) != 1 {
		t.Errorf("the next one: %d, %v; %q", n, err, p.args)
	}
}
