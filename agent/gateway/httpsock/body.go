package httpsock

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

const (
	// Every call may hold so many bytes; what it holds beyond that, its caller is charged for.
	freeBytes = 16 << 10
	// An answer is written in parts, each of which the client has to read in time.
	partBytes = 64 << 10
	readTime  = 10 * time.Second
)

// exchange is the body of a call and its answer, as far as they take memory.
type exchange struct {
	claim   budget.Claim
	control *http.ResponseController

	mu    sync.Mutex
	over  bool
	given error // why the body was given up
}

func (s *Server) newExchange(w http.ResponseWriter, req *http.Request) *exchange {
	x := &exchange{control: http.NewResponseController(w)}
	s.opts.Budget.Open(&x.claim, grantOf(req).Caller(), x)
	return x
}

// GiveUp implements budget.Holder.
func (x *exchange) GiveUp(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.given = err
		_ = x.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// arrived ends the time in which the body can be given up, and returns why it was.
func (x *exchange) arrived() error {
	x.claim.Arrived()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	return x.given
}

// read appends a body of at most most bytes to b. Its errors are those of the body, and of the
// budget. The parts of a body are joined when all have arrived: a buffer that is copied whenever it
// is full would leave as much garbage as it holds, for each body that never ends.
func (x *exchange) read(b []byte, body io.Reader) ([]byte, error) {
	x.claim.Await(time.Time{}) // the server's ReadTimeout bounds it
	var full [][]byte
	room, charged := cap(b), freeBytes
	for {
		if len(b) == cap(b) {
			size := max(room, 4<<10) // as much again
			room += size
			if room > charged {
				if !x.claim.Try(int64(room - charged)) {
					_ = x.arrived()
					return b, budget.ErrOverloaded
				}
				charged = room
			}
			if len(b) > 0 {
				full = append(full, b)
			}
			b = make([]byte, 0, size)
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == nil {
			continue
		}
		if given := x.arrived(); given != nil {
			return b, given
		}
		if !errors.Is(err, io.EOF) {
			return b, err
		}
		if len(full) > 0 {
			b = slices.Concat(append(full, b)...)
		}
		return b, nil
	}
}

// holds charges the caller for a part of the answer with so many bytes, beyond those that are free, and
// reports whether there was room.
func (x *exchange) holds(bytes int) bool {
	return bytes <= freeBytes || x.claim.Try(int64(bytes-freeBytes))
}

// write writes an answer that there is room for.
func write[T string | []byte](x *exchange, w http.ResponseWriter, answer T) {
	for len(answer) > 0 {
		part := answer[:min(partBytes, len(answer))]
		if len(answer) > partBytes {
			_ = x.control.SetWriteDeadline(time.Now().Add(readTime))
		}
		if _, err := w.Write([]byte(part)); err != nil {
			return // a caller that went away needs no answer
		}
		answer = answer[len(part):]
	}
}
