package httpsock

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// decidePrefix begins the path of a request for a decision.
const decidePrefix = "/v1/decide/"

// Headers of the answer to a request for a decision.
const (
	headerUpstream = "Scriptorium-Upstream" // where the client's request goes
	headerPath     = "Scriptorium-Path"     // what it asks for instead
	headerQuery    = "Scriptorium-Query"
	headerRemove   = "Scriptorium-Remove"    // names of headers that the upstream must not get
	headerMetadata = "Scriptorium-Metadata"  // JSON
	headerChain    = "Scriptorium-Chain"     // the scripts of an event that have run
	headerResponse = "Scriptorium-Response-" // begins the name of a header that the client gets
	headerAccel    = "X-Accel-Redirect"
)

// decisionContentType is the media type of a decision as JSON.
var decisionContentType = []string{"application/vnd.scriptorium.decision+json"}

// decide serves a request for a decision, with any method: 200 and no body let the client's
// request through. Clients can cause the errors of a malformed request. These deny it, also at a
// gateway that goes on without a decision.
func (s *Server) decide(w http.ResponseWriter, req *http.Request) {
	q, err := parseQuestion(req)
	if err != nil {
		s.refuse(w, err)
		return
	}
	x := s.newExchange(w, req)
	defer x.claim.Close()
	d, text, err := s.settle(x, q, w, req)
	switch {
	case err != nil:
		s.refuse(w, err)
	case q.json:
		h := w.Header()
		h["Content-Type"] = decisionContentType
		h["Content-Length"] = []string{strconv.Itoa(len(text))}
		write(x, w, text)
	default:
		q.answer(x, w, d)
	}
}

// settle makes the decision, and its text if the question wants JSON. The error says why the request is
// malformed. Nothing that it has needed for that is held while the client reads the answer.
func (s *Server) settle(x *exchange, q *question, w http.ResponseWriter, req *http.Request) (d decision.Decision, text []byte, err error) {
	run := decision.NewRun()
	defer run.Release()
	if err = s.mayAsk(req, q); err == nil {
		var request *decision.Request
		if request, err = q.request(x, w, req); err != nil && script.KindOf(err) == script.Invalid {
			return d, nil, err
		}
		if err == nil {
			d, err = s.ask(req, q, run, request)
		}
	}
	if version := run.Version(); version != 0 {
		w.Header()[HeaderVersion] = []string{strconv.FormatUint(version, 10)}
	}
	if chain := run.Chain(); chain != "" {
		w.Header()[headerChain] = []string{chain}
	}
	if err != nil {
		s.opts.Logger.Debug("a request gets no decision", "script", q.Target, "error", err)
	}
	d = run.Or(q.Fail, d, err)
	if !x.holds(len(d.Body)) { // it denies the request, which does not go on because its answer is large
		d, err = decision.Closed(string(script.Overloaded)), budget.ErrUnread
	}
	if !q.json {
		return d, nil, nil
	}
	if text, err = run.Document(&d, err); err == nil && !x.holds(len(text)-len(d.Body)) { // escapes
		d = decision.Closed(string(script.Overloaded))
		text, err = run.Document(&d, budget.ErrUnread)
	}
	return d, text, err
}

// mayAsk returns nil if the caller may have the target decide now.
func (s *Server) mayAsk(req *http.Request, q *question) error {
	if peerOf(req).spare {
		return errTooMany
	}
	return q.Target.Check(grantOf(req))
}

// ask has the target decide.
func (s *Server) ask(req *http.Request, q *question, run *decision.Run, request *decision.Request) (decision.Decision, error) {
	q.Traceparent, q.Key, q.Origin = req.Header.Get("Traceparent"), request.Key(q.key), originOf(req)
	d, err := run.Decide(req.Context(), s.opts.Executor, &q.Question, request)
	if err == nil && !d.Allow && d.Status/100 == 2 && q.accel == "" && !q.json { // gateways that ask take it for consent
		s.opts.Logger.Debug("a request is denied without the status of the decision, which lets it through at a gateway that asks first: want 300 to 599", "script", q.Target, "status", d.Status)
		return decision.Closed(string(script.Invalid)), nil // also if it fails open: the script denies it
	}
	return d, err
}

// refuse denies a request that is none for a decision, and says why.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	w.Header().Set(decision.ReasonHeader, string(script.KindOf(err)))
	s.fail(w, err)
}

// answer writes the decision.
func (q *question) answer(x *exchange, w http.ResponseWriter, d decision.Decision) {
	h := w.Header()
	prefix := "" // of the names of headers that the client gets
	if d.Allow {
		prefix = headerResponse
		change(h, "", d.Request)
		if len(d.Request.Remove) > 0 {
			h.Set(headerRemove, strings.Join(d.Request.Remove, ", "))
		}
		if d.Upstream != "" {
			h.Set(headerUpstream, d.Upstream)
		}
		if d.Path != nil {
			h.Set(headerPath, *d.Path)
		}
		if d.Query != nil {
			h.Set(headerQuery, *d.Query)
		}
		if d.Metadata != nil {
			h.Set(headerMetadata, string(d.Metadata))
		}
		if q.accel != "" {
			h.Set(headerAccel, q.accel)
		}
		d.Status = http.StatusOK
	}
	change(h, prefix, d.Response)
	if !d.Allow && d.Body != "" && h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if d.Status != http.StatusNoContent && d.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(d.Body)))
	}
	w.WriteHeader(d.Status)
	write(x, w, d.Body)
}

// change makes headers of the changes that set and append. The name of one of ours has no prefix.
func change(h http.Header, prefix string, changes decision.Changes) {
	for _, header := range changes.Set {
		name := prefix + header.Name
		if header.Name == decision.ReasonHeader {
			name = header.Name
		}
		h.Set(name, header.Value)
	}
	for _, header := range changes.Append {
		h.Add(prefix+header.Name, header.Value)
	}
}
