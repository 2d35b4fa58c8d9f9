package respsock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fcall serves FCALL tenant/script 0 [ARG ...].
func (c *conn) fcall(w *work) {
	args := w.parser.args
	if len(args) < 3 {
		w.out = appendWrongArity(w.out, args[0])
		return
	}
	if string(args[2]) != "0" {
		w.out = appendFailure(w.out, script.Errorf(script.Invalid, "numkeys",
			"must be 0, since scripts have no keys: FCALL tenant/script 0 [ARG ...]"))
		return
	}
	if err := c.execute(c.srv.conns.Context(), w, gateway.Call{Args: args[3:], Origin: c.origin()}, args[1]); err != nil {
		w.out = appendFailure(w.out, err)
		return
	}
	switch n := w.reply.Len(); n {
	case 0:
		w.out = appendNull(w.out, c.resp3)
	case 1:
		w.out = appendBulk(w.out, w.reply.Value(0))
	default:
		w.out = appendResults(w.out, &w.reply)
	}
}

// callSyntax is that of the call that tells more than FCALL.
const callSyntax = "tenant/script numargs [ARG ...] [TIMEOUT milliseconds] [TRACEPARENT traceparent] [KEY key]"

// callFully serves SCRIPTORIUM.CALL, which takes a deadline and a trace context,
// and answers [version, digest, staleness in ms or null, [results]].
func (c *conn) callFully(w *work) {
	err := c.tryCallFully(w)
	if err != nil {
		w.out = appendFailure(w.out, err)
		return
	}
	w.out = appendArray(w.out, 4)
	w.out = appendInt(w.out, int64(w.reply.Version))
	w.out = appendBulk(w.out, w.reply.Digest.String())
	if stale := w.reply.Position.Staleness; stale < 0 {
		w.out = appendNull(w.out, c.resp3)
	} else {
		w.out = appendInt(w.out, stale.Milliseconds())
	}
	w.out = appendResults(w.out, &w.reply)
}

func (c *conn) tryCallFully(w *work) error {
	words := w.parser.args[1:]
	if len(words) < 2 {
		return script.Errorf(script.Invalid, "", "want SCRIPTORIUM.CALL %s", callSyntax)
	}
	count, ok := parseUint(words[1])
	if !ok || count > uint64(len(words)-2) {
		return script.Errorf(script.Invalid, "numargs", "%.40q is not the number of arguments that follow: want SCRIPTORIUM.CALL %s", words[1], callSyntax)
	}
	args := words[2 : 2+count]
	options, err := parseOptions(words[2+count:], "SCRIPTORIUM.CALL "+callSyntax, "TIMEOUT", "TRACEPARENT", "KEY")
	if err != nil {
		return err
	}
	ctx, cancel := options.deadline(c.srv.conns.Context())
	defer cancel()
	return c.execute(ctx, w, gateway.Call{Args: args, Traceparent: options.traceparent, Key: options.key, Origin: c.origin()}, words[0])
}

func (c *conn) origin() gateway.Origin {
	return gateway.Origin{Protocol: "resp", Caller: c.grant.Caller()}
}

// options are what a command has after its arguments.
type options struct {
	timeout     time.Duration // 0: what the script may take
	traceparent string
	key         string // in a rollout by key
	fail        decision.Fail
}

// deadline returns a context with the timeout, if there is one.
func (o options) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, o.timeout)
}

// parseOptions reads pairs of a name, which is one of known, and a value. Syntax is that of the whole
// command.
func parseOptions(words [][]byte, syntax string, known ...string) (o options, err error) {
	for ; len(words) >= 2; words = words[2:] {
		name, value := strings.ToUpper(string(words[0])), words[1]
		if !slices.Contains(known, name) {
			return o, script.Errorf(script.Invalid, "", "%.40q is not an option: want %s", words[0], syntax)
		}
		switch name {
		case "TIMEOUT":
			ms, ok := parseUint(value)
			if !ok || ms == 0 || ms > uint64(time.Hour/time.Millisecond) {
				return o, script.Errorf(script.Invalid, "TIMEOUT", "%.40q is not a number of milliseconds from 1 to an hour", value)
			}
			o.timeout = time.Duration(ms) * time.Millisecond
		case "TRACEPARENT":
			o.traceparent = string(value)
		case "KEY":
			o.key = string(value)
		case "FAIL":
			if o.fail, err = decision.ParseFail(string(value)); err != nil {
				return o, err
			}
		}
	}
	if len(words) > 0 {
		return o, script.Errorf(script.Invalid, "", "%.40q has no value: want %s", words[0], syntax)
	}
	return o, nil
}

// execute runs the call, of the script with the name, into w.reply.
func (c *conn) execute(ctx context.Context, w *work, call gateway.Call, name []byte) error {
	if n := len(call.Args); n > maxArgs {
		return script.Errorf(script.Invalid, "args", "there are %d arguments; a call may have %d", n, maxArgs)
	}
	callee := c.callee(name)
	if callee.err != nil {
		return callee.err
	}
	c.srv.calls.Add(1)
	w.call, w.call.Script = call, callee.script
	w.reply.Reset()
	return c.srv.opts.Executor.Execute(ctx, &w.call, &w.reply)
}

// callee returns the script of the name, and whether the peer may call it. A
// connection remembers the names that it saw, so that a call makes no string.
func (c *conn) callee(name []byte) callee {
	if known, ok := c.names[string(name)]; ok {
		return known
	}
	ref := string(name)
	found := callee{script: ref, err: c.grant.Check(ref)}
	const longest = 2*script.MaxLabelLen + len("/@") + 20
	if len(ref) > longest || found.err != nil {
		return found // no script's name, or not to be called: not worth remembering
	}
	if c.names == nil {
		c.names = map[string]callee{}
	}
	if len(c.names) >= maxNames {
		clear(c.names)
	}
	c.names[ref] = found
	return found
}

func appendResults(dst []byte, reply *gateway.Reply) []byte {
	dst = appendArray(dst, reply.Len())
	for i := range reply.Len() {
		dst = appendBulk(dst, reply.Value(i))
	}
	return dst
}

// parseUint parses a decimal number of at most nine digits.
func parseUint(s []byte) (n uint64, ok bool) {
	if len(s) == 0 || len(s) > 9 {
		return 0, false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}
