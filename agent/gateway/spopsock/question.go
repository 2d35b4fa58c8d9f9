package spopsock

import (
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// messageName begins the names of the messages that ask for a decision: HAProxy wants different
// names for messages with different arguments.
const messageName = "scriptorium"

// question is what a message asks.
type question struct {
	decision.Question
	request decision.Request
	entries int  // headers and parameters of the request
	traced  bool // an argument has the trace context, which headers have no say in then
}

// parseNotify reads the payload of a frame with messages. A payload that is malformed is a
// *disconnection. Any other error is Invalid, and about the configuration of HAProxy or a request
// that it sends: it denies the request, also at a gateway that goes on without a decision.
func parseNotify(d *decoder) (*question, error) {
	q := &question{}
	var wrong error
	messages := 0
	for d.more() {
		name := d.string()
		messages++
		if suffix, ours := strings.CutPrefix(name, messageName); !ours || suffix != "" && suffix[0] != '-' && suffix[0] != '_' {
			wrong = firstOf(wrong, script.Errorf(script.Invalid, "message", "%.64q is unknown: want %s, or a name that begins with %s-", name, messageName, messageName))
		}
		seen := make(map[string]bool, 16)
		for range d.byte() {
			arg, v := d.string(), d.value()
			if d.failed {
				break
			}
			if canonical := aliasOf(arg); seen[canonical] {
				wrong = firstOf(wrong, script.Errorf(script.Invalid, arg, "is there twice"))
			} else if seen[canonical] = true; v.kind != kindNull { // null: HAProxy has no such value
				wrong = firstOf(wrong, q.set(arg, v))
			}
		}
	}
	if d.failed || messages == 0 {
		return nil, disconnect(statusInvalid, "the messages of NOTIFY are malformed")
	}
	if messages > 1 {
		wrong = firstOf(wrong, script.Errorf(script.Invalid, "message", "there are %d for one event: want one", messages))
	}
	if wrong == nil {
		wrong = firstOf(q.Target.Validate(), q.request.Validate())
	}
	return q, wrong
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func aliasOf(arg string) string {
	if arg == "src" {
		return "remote_addr"
	}
	return arg
}

// set takes one argument of a message.
func (q *question) set(name string, v value) (err error) {
	r := &q.request
	switch name {
	case "script":
		q.Target.Script = v.String()
	case "event":
		q.Target.Event = v.String()
	case "tenant":
		q.Target.Tenant = v.String()
	case "fail":
		q.Fail, err = decision.ParseFail(v.String())
		return err
	case "timeout":
		return q.setTimeout(v)
	case "headers":
		return q.setHeaders(v)
	case "method":
		r.Method = v.String()
	case "scheme":
		r.Scheme = v.String()
	case "host":
		r.Host = v.String()
	case "path":
		r.Path = v.String()
	case "query":
		r.Query = v.String()
	case "src", "remote_addr":
		r.RemoteAddr = v.String()
	case "body":
		r.Body, r.HasBody = []byte(v.String()), v.text != ""
	case "cert":
		r.ClientCertificate = v.String()
	case "route":
		r.Route = v.String()
	case "key":
		q.Key = v.String()
	case "traceparent":
		q.Traceparent, q.traced = v.String(), true
	default:
		return q.setParam(name, v)
	}
	return nil
}

// setParam takes an argument of the rule's own.
func (q *question) setParam(name string, v value) error {
	param, ok := strings.CutPrefix(name, "param.")
	if !ok || param == "" {
		return script.Errorf(script.Invalid, "args", "%.64q is unknown: the page about HAProxy lists the arguments", name)
	}
	if q.request.Params == nil {
		q.request.Params = map[string]string{}
	}
	q.request.Params[param] = v.String()
	q.entries++
	return nil
}

// setTimeout takes a duration such as 50ms, or a number of milliseconds.
func (q *question) setTimeout(v value) (err error) {
	text := v.String()
	if v.kind != kindString {
		text += "ms"
	}
	if q.Timeout, err = time.ParseDuration(text); err != nil || q.Timeout <= 0 {
		return script.Errorf(script.Invalid, "timeout", "%.40q is no positive duration such as 50ms", text)
	}
	return nil
}

// setHeaders takes all headers: as text from req.hdrs, or as binary from req.hdrs_bin.
func (q *question) setHeaders(v value) error {
	q.request.Headers = map[string][]string{}
	switch v.kind {
	case kindBinary:
		d := decoder{text: v.text}
		for d.more() {
			name, value := d.string(), d.string()
			if name == "" {
				break // the end
			}
			q.addHeader(name, value)
		}
		if d.failed || d.text != "" {
			return script.Errorf(script.Invalid, "headers", "is malformed: want req.hdrs_bin")
		}
		return nil
	case kindString:
		for line := range strings.SplitSeq(v.text, "\n") {
			line = strings.TrimSuffix(line, "\r")
			if line == "" {
				break // the end
			}
			name, value, ok := strings.Cut(line, ":")
			if !ok || name == "" {
				return script.Errorf(script.Invalid, "headers", "has a line without a name: want req.hdrs")
			}
			q.addHeader(name, strings.TrimSpace(value))
		}
		return nil
	}
	return script.Errorf(script.Invalid, "headers", "has another type: want req.hdrs_bin or req.hdrs")
}

func (q *question) addHeader(name, value string) {
	name = decision.HeaderName(name)
	switch {
	case strings.HasPrefix(name, "scriptorium-"): // these are the agent's own
		return
	case name == "traceparent" && !q.traced:
		q.Traceparent = value
	}
	q.entries++
	q.request.Headers[name] = append(q.request.Headers[name], value)
}
