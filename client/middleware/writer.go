package middleware

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Writer changes the headers of an answer when it begins, so that the changes hold against those that
// wrote it. It has what the writer below has: see http.ResponseController.
type Writer struct {
	http.ResponseWriter
	changes *Changes
	done    bool
}

// Writer returns a Writer with the changes for the client.
func (d *Decision) Writer(w http.ResponseWriter) *Writer {
	return &Writer{ResponseWriter: w, changes: &d.Response}
}

// Finish makes the changes if no answer has begun. The handler has returned.
func (w *Writer) Finish() {
	if !w.done {
		w.done = true
		w.changes.Apply(w.Header())
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.Finish()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(b []byte) (int, error) {
	w.Finish()
	return w.ResponseWriter.Write(b)
}

// ReadFrom implements io.ReaderFrom: files go the short way.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	w.Finish()
	return io.Copy(w.ResponseWriter, r)
}

// Flush implements http.Flusher.
func (w *Writer) Flush() {
	w.Finish()
	_ = http.NewResponseController(w.ResponseWriter).Flush() // not every writer can
}

// Hijack implements http.Hijacker.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Push implements http.Pusher.
func (w *Writer) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := w.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
