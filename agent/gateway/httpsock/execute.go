package httpsock

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/proto/budget"
	"github.com/scriptorium-dev/scriptorium/script"
)

// ArgsContentType is the media type of a body {"args":[…]} with any number of arguments.
const ArgsContentType = "application/vnd.scriptorium.args+json"

// The headers of a call and of its answer.
const (
	HeaderVersion   = "Scriptorium-Version"   // that ran
	HeaderDigest    = "Scriptorium-Digest"    // of that version
	HeaderStaleness = "Scriptorium-Staleness" // seconds, "0.412", or "unknown"
	HeaderResults   = "Scriptorium-Results"   // how many there are, unless it is one
	HeaderTimeout   = "Scriptorium-Timeout"   // of the request: "50ms"
	HeaderKey       = "Scriptorium-Key"       // of the request: what it counts as in a rollout by key
)

const (
	maxBody = 1 << 20
	maxArgs = 1024
)

// run is what one call needs; runs are pooled.
type run struct {
	body  []byte
	call  gateway.Call
	reply gateway.Reply
	out   []byte
}

var runPool = sync.Pool{New: func() any { return new(run) }}

func (r *run) release() {
	const argBytes = 24
	if cap(r.body)+cap(r.out)+r.reply.Held()+argBytes*cap(r.call.Args) > freeBytes { // the next caller is not charged for it
		return
	}
	r.body = r.body[:0]
	r.reply.Reset()
	clear(r.call.Args)
	r.call = gateway.Call{Args: r.call.Args[:0]}
	r.out = r.out[:0]
	runPool.Put(r)
}

// execute serves POST /v1/execute/{tenant}/{script}.
func (s *Server) execute(w http.ResponseWriter, req *http.Request) {
	r := runPool.Get().(*run)
	defer r.release()
	ref := req.PathValue("tenant") + "/" + req.PathValue("script")
	ctx, cancel, err := withTimeout(req)
	if err != nil {
		s.fail(w, err)
		return
	}
	defer cancel()
	if err := grantOf(req).Check(ref); err != nil {
		s.fail(w, err)
		return
	}
	x := s.newExchange(w, req)
	defer x.claim.Close()
	if err := r.readArgs(x, w, req); err != nil {
		s.fail(w, err)
		return
	}
	r.call.Script, r.call.Key = ref, req.Header.Get(HeaderKey)
	r.call.Traceparent, r.call.Origin = req.Header.Get("Traceparent"), originOf(req)
	err = s.opts.Executor.Execute(ctx, &r.call, &r.reply)
	describe(w.Header(), &r.reply)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.succeed(x, w, r)
}

// withTimeout returns the request's context, with the deadline that its header
// asks for.
func withTimeout(req *http.Request) (context.Context, context.CancelFunc, error) {
	text := req.Header.Get(HeaderTimeout)
	if text == "" {
		return req.Context(), func() {}, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return nil, nil, script.Errorf(script.Invalid, HeaderTimeout, "%.40q is not a positive duration such as 50ms", text)
	}
	ctx, cancel := context.WithTimeout(req.Context(), timeout)
	return ctx, cancel, nil
}

// readArgs reads the arguments from the body into r.call.Args.
func (r *run) readArgs(x *exchange, w http.ResponseWriter, req *http.Request) error {
	contentType := req.Header.Get("Content-Type")
	kind, err := bodyOf(contentType)
	if err != nil {
		return err
	}
	r.body, err = x.read(r.body[:0], http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return bodyError(err)
	}
	body := r.body
	if kind == jsonUnlessForm && isForm(body) {
		return unsupported("the body of type %.80q is not JSON: send a JSON value, such as {\"a\":1}", contentType)
	}
	if kind != severalArgs {
		if len(bytes.TrimSpace(body)) > 0 {
			r.call.Args = append(r.call.Args, body)
		}
		return nil
	}
	r.call.Args, err = parseArgs(r.call.Args, body)
	return err
}

// bodyKind says what the body of a call holds.
type bodyKind uint8

const (
	oneArg bodyKind = iota
	severalArgs
	jsonUnlessForm // one argument: curl -d declares JSON as a form, too
)

// curlType is the content type of curl -d by default, and of forms.
const curlType = "application/x-www-form-urlencoded"

// bodyOf returns what a body of the content type holds.
func bodyOf(contentType string) (bodyKind, error) {
	switch contentType {
	case "", "application/json":
		return oneArg, nil
	case ArgsContentType:
		return severalArgs, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
	case media == ArgsContentType:
		return severalArgs, nil
	case media == curlType:
		return jsonUnlessForm, nil
	case media == "application/json", media == "text/json", strings.HasSuffix(media, "+json"):
		return oneArg, nil
	}
	return oneArg, unsupported("%.80q is not supported: want application/json or %s", contentType, ArgsContentType)
}

func unsupported(format string, args ...any) error {
	return &statusError{http.StatusUnsupportedMediaType, script.Errorf(script.Invalid, "Content-Type", format, args...)}
}

// isForm reports whether a body of curlType is form data. JSON that is malformed
// mostly looks like JSON: its error can then say at which byte it is wrong.
func isForm(body []byte) bool {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || strings.IndexByte(`{["`, body[0]) >= 0 {
		return false
	}
	switch string(body) {
	case "true", "false", "null":
		return false
	}
	return strings.IndexByte("-0123456789", body[0]) < 0 || len(bytes.TrimLeft(body, "0123456789+-.eE")) > 0
}

// describe says which version answered, and how stale the agent is.
func describe(h http.Header, reply *gateway.Reply) {
	if reply.Version != 0 {
		h[HeaderVersion] = []string{strconv.FormatUint(reply.Version, 10)}
		h[HeaderDigest] = []string{reply.Digest.String()}
	}
	h[HeaderStaleness] = []string{formatStaleness(reply.Position.Staleness)}
}

func formatStaleness(d time.Duration) string {
	if d < 0 {
		return "unknown"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
}

// succeed writes the results.
func (s *Server) succeed(x *exchange, w http.ResponseWriter, r *run) {
	var body []byte
	n := r.reply.Len()
	switch n {
	case 0:
		body = append(r.out, "null"...)
	case 1:
		body = r.reply.Value(0)
	default:
		body = append(r.out, '[')
		for i := range n {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, r.reply.Value(i)...)
		}
		body = append(body, ']')
		r.out, r.reply = body, gateway.Reply{} // which is not held twice while the client reads
	}
	if !x.holds(len(body)) {
		s.fail(w, budget.ErrUnread)
		return
	}
	h := w.Header()
	if n != 1 {
		h[HeaderResults] = []string{strconv.Itoa(n)}
	}
	h["Content-Type"] = jsonContentType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	write(x, w, body)
}

var jsonContentType = []string{"application/json"}
