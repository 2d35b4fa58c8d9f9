package httpsock_test

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/httpsock"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// TestReadBody reads bodies around the ends of the parts, into a new buffer and into one that was used.
func TestReadBody(t *testing.T) {
	all := budget.New(16 << 20)
	body := make([]byte, 1<<20)
	for i := range body {
		body[i] = byte(i * i >> 7)
	}
	for _, edge := range []int{0, 100, 4 << 10, 8 << 10, 16 << 10, 20 << 10, 64 << 10, 1 << 20} {
		for size := max(edge-1, 0); size <= min(edge+1, len(body)); size++ {
			for _, room := range []int{0, 1, 100, 5000} {
				for name, as := range map[string]func(io.Reader) io.Reader{
					"whole": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
				} {
					used := bytes.Repeat([]byte("old"), room)
					got, err := httpsock.ReadBody(all, used[:0], as(bytes.NewReader(body[:size])))
					if err != nil || !bytes.Equal(got, body[:size]) {
						t.Errorf("%d bytes %s, into a buffer of %d: got %d bytes, %v", size, name, cap(used), len(got), err)
					}
				}
			}
		}
	}
}

// TestSmallBodiesAreNotCopied: a body that fits into its first part is read into the buffer that the call has.
func TestSmallBodiesAreNotCopied(t *testing.T) {
	all, text := budget.New(1<<20), bytes.Repeat([]byte("x"), 1000)
	body := bytes.NewReader(text)
	const most = 2 // the exchange and the buffer
	if n := testing.AllocsPerRun(100, func() {
		body.Reset(text)
		if _, err := httpsock.ReadBody(all, nil, body); err != nil {
			t.Fatal(err)
		}
	}); n > most {
		t.Errorf("%v allocations, want %d", n, most)
	}
}
