package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// backgroundHeader marks calls that a page makes by itself: they do not keep a session from being idle.
const backgroundHeader = "Scriptorium-Background"

// Times for the browser.
const (
	bodyTimeout   = 30 * time.Second                          // until a request has arrived
	writeTimeout  = 30 * time.Second                          // until the browser has taken a part of a stream
	answerTimeout = bodyTimeout + unaryTimeout + writeTimeout // until it has taken any other answer
)

// bytesInProgress bounds what all requests and answers in progress hold. One caller holds at most half, with all sessions together.
const bytesInProgress = 256 << 20

// errStopping is the reason that streams end with when the console does.
var errStopping = script.Errorf(script.Unavailable, "", "the console stops: try again")

// require lets requests with a session pass, within the bounds of that, and ends them with the session. Streams end when the
// console stops, too.
func (c *Console) require(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		stream, ok := protocol(r)
		if !ok {
			c.metrics.refused("content_type")
			refuse(w, r, failureAs(connect.CodeInvalidArgument, script.Errorf(script.Invalid, "Content-Type", "%.100q is none of the console: send application/proto, application/json, application/connect+proto or application/connect+json", r.Header.Get("Content-Type"))))
			return
		}
		found := c.sessions.find(r, r.Header.Get(backgroundHeader) == "")
		if found == nil {
			c.metrics.refused("no_session")
			refuse(w, r, failure(errNoSession))
			return
		}
		leave, err := c.sessions.enter(found, stream)
		if err != nil {
			c.metrics.refused("session_limit")
			refuse(w, r, failure(err))
			return
		}
		defer leave()
		var claim budget.Claim
		c.memory.Open(&claim, found.caller, nil) // nothing waits with it, so nobody gives it up
		defer claim.Close()
		if err := receive(w, r, &claim); err != nil {
			refuse(w, r, failure(err))
			return
		}
		ctx := context.WithValue(context.WithValue(r.Context(), sessionKey{}, found), claimKey{}, &claim)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(found.life, func() { cancel(context.Cause(found.life)) })()
		if stream {
			defer context.AfterFunc(c.draining, func() { cancel(errStopping) })()
			patient := newPatientWriter(w, cmp.Or(c.cfg.WriteTimeout, writeTimeout))
			defer patient.hurry() // for the rest that is buffered
			w = patient
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// protocol reports whether the request speaks Connect's protocol, and whether it wants a stream.
func protocol(r *http.Request) (stream, ok bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return false, false
	}
	switch strings.TrimPrefix(kind, "application/") {
	case "proto", "json":
		return false, true
	case "connect+proto", "connect+json":
		return true, true
	}
	return false, false
}

type claimKey struct{}

// claimOf returns what a call that require has let pass holds of the console's memory.
func claimOf(ctx context.Context) *budget.Claim { return ctx.Value(claimKey{}).(*budget.Claim) }

// receive reads the body of the request, which has a bound of size, and of time by the guard. The handler finds it in its place.
// The claim holds the body and the message that is made of it.
func receive(w http.ResponseWriter, r *http.Request, claim *budget.Claim) error {
	const largest = maxMessage + 5 // the envelope of a message in a stream
	packed := r.Header.Get("Content-Encoding") != "" || r.Header.Get("Connect-Content-Encoding") != ""
	room := int64(largest)
	if r.ContentLength >= 0 && !packed {
		room = min(r.ContentLength, largest)
	}
	if !claim.Hold(2 * room) {
		return budget.ErrOverloaded
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return script.Errorf(script.Limit, "", "the request is larger than %d bytes: make it smaller", maxMessage)
	}
	if err != nil {
		return script.Errorf(script.Timeout, "", "the request has not arrived in time: try again, or look at the network")
	}
	if !packed {
		claim.Give(2 * (room - int64(len(body))))
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// patientWriter writes a stream: it gives up on a browser that takes nothing for a while, however long there is nothing to
// write. With HTTP/2, a deadline that passes ends a stream that nobody writes to, too.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func newPatientWriter(w http.ResponseWriter, timeout time.Duration) *patientWriter {
	p := &patientWriter{w, http.NewResponseController(w), timeout}
	_ = p.control.SetWriteDeadline(time.Time{})
	return p
}

// Write implements http.ResponseWriter.
func (w *patientWriter) Write(p []byte) (int, error) {
	w.hurry()
	defer w.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // it could be set a moment ago
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, which Connect's streams need.
func (w *patientWriter) Flush() {
	w.hurry()
	defer w.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // it could be set a moment ago
	_ = w.control.Flush()
}

// hurry bounds the time of what is written next.
func (w *patientWriter) hurry() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
