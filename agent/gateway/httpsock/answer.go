package httpsock

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// errorBody is the body of every error.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Kind    script.Kind `json:"kind"`
	Field   string      `json:"field,omitempty"`
	Message string      `json:"message"`
	Line    int         `json:"line,omitempty"`
	Column  int         `json:"column,omitempty"`
}

// statusOf maps kinds to status codes (docs/protocol.md has the table).
var statusOf = map[script.Kind]int{
	script.NotFound:    http.StatusNotFound,
	script.Disabled:    http.StatusForbidden,
	script.Script:      http.StatusInternalServerError,
	script.Timeout:     http.StatusGatewayTimeout,
	script.Limit:       http.StatusInsufficientStorage,
	script.Overloaded:  http.StatusServiceUnavailable,
	script.Denied:      http.StatusForbidden,
	script.Invalid:     http.StatusBadRequest,
	script.Conflict:    http.StatusConflict,
	script.Unavailable: http.StatusServiceUnavailable,
	script.Internal:    http.StatusInternalServerError,
}

// statusError is an error with a status other than that of its kind: HTTP has
// several for what is all script.Invalid.
type statusError struct {
	status int
	err    *script.Error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// fail answers with err.
func (s *Server) fail(w http.ResponseWriter, err error) {
	e := script.AsError(err)
	status, ok := statusOf[e.Kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	if special, ok := errors.AsType[*statusError](err); ok {
		status = special.status
	}
	if e.Kind == script.Internal {
		s.opts.Logger.Error("a call failed by a fault of the agent", "error", err)
	}
	s.writeJSON(w, status, errorBody{errorDetail{
		Kind: e.Kind, Field: e.Field, Message: e.Message, Line: e.Line, Column: e.Column,
	}})
}

func (s *Server) writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.opts.Logger.Error("an answer cannot be encoded", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h["Content-Type"] = jsonContentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that went away needs no answer
}

// only lets requests with the method through to h; HEAD goes where GET does.
func (s *Server) only(method string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
			h(w, r)
			return
		}
		w.Header().Set("Allow", method)
		s.fail(w, &statusError{http.StatusMethodNotAllowed, script.Errorf(script.Invalid, "method", "is %.20q; this path takes %s", r.Method, method)})
	}
}

// entered is only for connections that are not too many.
func (s *Server) entered(method string, h http.HandlerFunc) http.HandlerFunc {
	return s.only(method, func(w http.ResponseWriter, r *http.Request) {
		if peerOf(r).spare {
			w.Header().Set("Connection", "close")
			s.fail(w, errTooMany)
			return
		}
		h(w, r)
	})
}

var errTooMany = script.Errorf(script.Overloaded, "", "the agent has as many connections as it may, or as this user may: close some, or use each for more requests")

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.fail(w, script.Errorf(script.NotFound, "path",
		"there is nothing at %.200q: want POST /v1/execute/{tenant}/{script}", r.URL.Path))
}

// healthBody is the answer to /healthz, and readyBody that to /readyz: the same
// as on the agent's admin address.
type healthBody struct {
	Alive bool `json:"alive"`
}

type readyBody struct {
	Ready bool `json:"ready"`
	// Reason says why it is not.
	Reason string `json:"reason,omitempty"`
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	s.writeJSON(w, http.StatusOK, healthBody{Alive: true})
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := s.opts.Ready(); err != nil {
		s.writeJSON(w, http.StatusServiceUnavailable, readyBody{Reason: err.Error()})
		return
	}
	s.writeJSON(w, http.StatusOK, readyBody{Ready: true})
}

// listBody is the answer to GET /v1/scripts.
type listBody struct {
	Revision script.Revision `json:"revision"`
	// Staleness in seconds; null if unknown.
	Staleness *float64     `json:"staleness"`
	Scripts   []scriptBody `json:"scripts"`
}

type scriptBody struct {
	Tenant   string          `json:"tenant"`
	Name     string          `json:"name"`
	Version  uint64          `json:"version"`
	Digest   script.Digest   `json:"digest"`
	Revision script.Revision `json:"revision"`
	Pinned   bool            `json:"pinned"`
	Enabled  bool            `json:"enabled"`
	Event    string          `json:"event,omitempty"`
	Priority int             `json:"priority,omitempty"`
}

// list serves GET /v1/scripts[?tenant=T][&event=E].
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	grant := grantOf(r)
	query := r.URL.Query()
	tenant, event := query.Get("tenant"), query.Get("event")
	if tenant != "" {
		if err := grant.CheckTenant(tenant); err != nil {
			s.fail(w, err)
			return
		}
	}
	s.charged(w, r, func(w http.ResponseWriter) { s.writeJSON(w, http.StatusOK, s.listed(grant, tenant, event)) })
}

// listed is what GET /v1/scripts answers.
func (s *Server) listed(grant gateway.Grant, tenant, event string) listBody {
	position := s.opts.Executor.Position()
	body := listBody{Revision: position.Revision, Scripts: []scriptBody{}}
	if position.Staleness >= 0 {
		seconds := position.Staleness.Seconds()
		body.Staleness = &seconds
	}
	for _, live := range s.opts.Executor.List() {
		if !grant.Allows(live.Name.Tenant) || tenant != "" && tenant != live.Name.Tenant || event != "" && event != live.Trigger.Event {
			continue
		}
		body.Scripts = append(body.Scripts, scriptBody{
			Tenant: live.Name.Tenant, Name: live.Name.Script,
			Version: live.Active.Number, Digest: live.Active.Digest, Revision: live.Revision,
			Pinned: live.Pinned, Enabled: live.Enabled, Event: live.Trigger.Event, Priority: live.Trigger.Priority,
		})
	}
	return body
}

// metrics serves GET /metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	gatherer, err := s.opts.Metrics(grantOf(r))
	if err != nil {
		s.fail(w, err)
		return
	}
	s.charged(w, r, func(w http.ResponseWriter) {
		promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	})
}

// charged answers a request with what answer writes, which the caller is charged for until
// the client has read it. One such answer is made at a time for each caller: how large it is
// nobody knows before.
func (s *Server) charged(w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter)) {
	x := s.newExchange(w, r)
	defer x.claim.Close()
	leave, err := s.making.Enter(r.Context(), grantOf(r).Caller())
	if err != nil {
		return
	}
	held := &heldAnswer{claim: &x.claim, header: w.Header(), status: http.StatusOK}
	func() {
		defer leave()
		answer(held)
	}()
	if held.full {
		clear(w.Header())
		s.fail(w, budget.ErrUnread)
		return
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(held.body.Len())}
	w.WriteHeader(held.status)
	write(x, w, held.body.Bytes())
}

// heldAnswer holds an answer as far as there is room for it.
type heldAnswer struct {
	claim  *budget.Claim
	header http.Header
	status int
	body   bytes.Buffer
	full   bool // the budget has no room for it
}

// Header implements http.ResponseWriter.
func (h *heldAnswer) Header() http.Header { return h.header }

// WriteHeader implements http.ResponseWriter.
func (h *heldAnswer) WriteHeader(status int) { h.status = status }

// Write implements http.ResponseWriter.
func (h *heldAnswer) Write(p []byte) (int, error) {
	before := max(freeBytes, h.body.Cap())
	h.body.Grow(len(p))
	if h.full = h.full || !h.claim.Try(int64(max(0, h.body.Cap()-before))); h.full {
		h.body = bytes.Buffer{}
		return 0, budget.ErrUnread
	}
	return h.body.Write(p)
}
