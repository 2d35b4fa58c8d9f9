package httpsock

import (
	"bytes"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// answer is an http.ResponseWriter that keeps a small answer until it is complete. It sends what a handler
// writes beyond keptAnswer at once, as net/http does: the handler charges the caller for a large answer
// until the handler returns. A connection uses its answer again for each request.
type answer struct {
	conn    answered
	header  http.Header
	status  int
	out     bytes.Buffer // what the client does not have yet
	body    []byte       // behind the head, which is not in out yet
	begun   bool         // the head is in out, or sent
	closing bool         // the head says that the connection ends
	err     error        // of what was sent
}

// answered is the connection of an answer.
type answered interface {
	// draining reports whether the answer is the last one of the connection.
	draining() bool
	// send sends a part of an answer.
	send(part []byte) error
	SetWriteDeadline(t time.Time) error
}

// keptAnswer is the size of the largest answer, and of the largest idle buffer, that a connection keeps.
const keptAnswer = 4 << 10

// reset forgets the answer.
func (a *answer) reset() {
	if a.header == nil {
		a.header = http.Header{}
	}
	clear(a.header)
	if a.out.Cap() > keptAnswer {
		a.out = bytes.Buffer{}
	}
	a.out.Reset()
	a.status, a.body, a.begun, a.closing, a.err = 0, nil, false, false, nil
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// SetWriteDeadline is for an http.ResponseController.
func (a *answer) SetWriteDeadline(t time.Time) error { return a.conn.SetWriteDeadline(t) }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.begun && (len(a.body)+len(p) <= keptAnswer || a.header["Content-Length"] == nil) {
		a.body = append(a.body, p...)
		return len(p), nil
	}
	if !a.begun {
		a.begin()
		a.flush()
	}
	if a.hasBody() && a.err == nil {
		a.err = a.conn.send(p)
	}
	return len(p), a.err
}

func (a *answer) hasBody() bool {
	return a.status >= http.StatusOK && a.status != http.StatusNoContent && a.status != http.StatusNotModified
}

// begin writes the head, and what there is of the body.
func (a *answer) begin() {
	if a.hasBody() && a.header["Content-Length"] == nil {
		a.header["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	}
	if a.header["Date"] == nil {
		a.header["Date"] = date()
	}
	if a.closing = a.conn.draining(); a.closing {
		a.header["Connection"] = []string{"close"}
	}
	a.begun = true
	a.out.WriteString("HTTP/1.1 ")
	a.out.WriteString(strconv.Itoa(a.status))
	a.out.WriteByte(' ')
	a.out.WriteString(http.StatusText(a.status))
	a.out.WriteString("\r\n")
	_ = a.header.Write(&a.out) // a buffer takes everything
	a.out.WriteString("\r\n")
	if a.hasBody() {
		a.out.Write(a.body)
	}
	a.body = nil
}

func (a *answer) flush() {
	if a.out.Len() > 0 {
		a.err = a.conn.send(a.out.Bytes())
		a.out.Reset()
	}
}

// finish sends what the client does not have yet, and reports whether the connection goes on.
func (a *answer) finish() bool {
	a.WriteHeader(http.StatusOK)
	if !a.begun {
		a.begin()
	}
	a.flush()
	return a.err == nil && !a.closing && !a.conn.draining()
}

// dated is a header Date, and the second that it is of.
type dated struct {
	second int64
	header []string
}

var lastDate atomic.Pointer[dated]

// date returns the header Date of now.
func date() []string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.header
	}
	d := &dated{now.Unix(), []string{now.UTC().Format(http.TimeFormat)}}
	lastDate.Store(d)
	return d.header
}
