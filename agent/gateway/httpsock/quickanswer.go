package httpsock

import (
	"bytes"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// answer is an http.ResponseWriter that keeps the answer. It is used again for each request.
type answer struct {
	header http.Header
	status int
	body   []byte
	out    bytes.Buffer
}

// keptAnswer is the size from which on a buffer is not kept.
const keptAnswer = 16 << 10

func (a *answer) reset() {
	if a.header == nil {
		a.header = http.Header{}
	}
	clear(a.header)
	a.status, a.body = 0, nil
	if a.out.Cap() > keptAnswer {
		a.out = bytes.Buffer{}
	}
	a.out.Reset()
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, p...)
	return len(p), nil
}

// bytes returns the whole answer, which holds until the next one. closing: it is the last of the connection.
func (a *answer) bytes(closing bool) []byte {
	a.WriteHeader(http.StatusOK)
	hasBody := a.status >= http.StatusOK && a.status != http.StatusNoContent && a.status != http.StatusNotModified
	if hasBody && a.header["Content-Length"] == nil {
		a.header["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	}
	if a.header["Date"] == nil {
		a.header["Date"] = date()
	}
	if closing {
		a.header["Connection"] = []string{"close"}
	}
	a.out.WriteString("HTTP/1.1 ")
	a.out.WriteString(strconv.Itoa(a.status))
	a.out.WriteByte(' ')
	a.out.WriteString(http.StatusText(a.status))
	a.out.WriteString("\r\n")
	_ = a.header.Write(&a.out) // a buffer takes everything
	a.out.WriteString("\r\n")
	if hasBody {
		a.out.Write(a.body)
	}
	return a.out.Bytes()
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
