package respsock

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A command that clients may send.
type command struct {
	name    string
	arity   int // number of words, the name among them; -n: at least n
	group   string
	summary string
	syntax  string // what comes after the name
	// run answers it; nil for COMMAND, which reads this table.
	run func(*conn, *work)
}

// commandList is what COMMAND lists. Besides calls these are the commands that
// clients send of their own accord.
var commandList = []command{
	{"FCALL", -3, "scripting", "Runs a script; each argument and result is a JSON value.", "tenant/script 0 [arg ...]", (*conn).fcall},
	{"FCALL_RO", -3, "scripting", "The same as FCALL.", "tenant/script 0 [arg ...]", (*conn).fcall},
	{"SCRIPTORIUM.CALL", -3, "scripting", "Runs a script; answers version, digest, staleness in ms, and the results.", callSyntax, (*conn).callFully},
	{"SCRIPTORIUM.DECIDE", -3, "scripting", "Has a script decide about a request; answers the decision as JSON.", decideSyntax, (*conn).decide},
	{"PING", -1, "connection", "Answers PONG, or the message.", "[message]", (*conn).ping},
	{"ECHO", 2, "connection", "Answers the message.", "message", (*conn).echo},
	{"HELLO", -1, "connection", "Chooses the protocol.", "[2|3 [SETNAME name]]", (*conn).hello},
	{"AUTH", -2, "connection", "Is refused: the socket knows its peer.", "[username] password", (*conn).auth},
	{"CLIENT", -2, "connection", "Names the connection.", "ID|GETNAME|SETNAME|SETINFO|INFO|LIST|NO-EVICT|NO-TOUCH", (*conn).client},
	{"SELECT", 2, "connection", "Takes database 0.", "0", (*conn).selectDB},
	{"RESET", 1, "connection", "Makes the connection as it was at first.", "", (*conn).reset},
	{"QUIT", -1, "connection", "Closes the connection.", "", (*conn).quit},
	{"CONFIG", -2, "server", "Answers GET save and GET appendonly.", "GET parameter [parameter ...]", (*conn).config},
	{"INFO", -1, "server", "Describes the agent.", "[section ...]", (*conn).info},
	{"COMMAND", -1, "server", "Lists the commands.", "[COUNT|LIST|INFO|DOCS]", nil},
}

var commandsByName = func() map[string]*command {
	m := make(map[string]*command, len(commandList))
	for i := range commandList {
		m[commandList[i].name] = &commandList[i]
	}
	return m
}()

var fcallName = []byte("FCALL")

// dispatch answers the command in w.parser.args.
func (c *conn) dispatch(w *work) {
	args := w.parser.args
	if bytes.EqualFold(args[0], fcallName) {
		c.fcall(w)
		return
	}
	cmd, ok := lookup(args[0])
	switch {
	case !ok && isTransaction(args[0]):
		prefix := "ERR"
		if bytes.EqualFold(args[0], []byte("EXEC")) {
			prefix = "EXECABORT" // then redis-py raises the error of MULTI
		}
		w.out = appendError(w.out, prefix, noTransactions)
	case !ok:
		w.out = appendError(w.out, "ERR", unknownCommand(args))
		if isHTTP(args) {
			c.closing, c.refused = true, true
		}
	case cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		w.out = appendWrongArity(w.out, args[0])
	case cmd.run == nil:
		c.describe(w)
	default:
		cmd.run(c, w)
	}
}

// lookup finds the command whatever its case, without making garbage.
func lookup(name []byte) (*command, bool) {
	var upper [32]byte
	if len(name) > len(upper) {
		return nil, false
	}
	for i, b := range name {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		upper[i] = b
	}
	cmd, ok := commandsByName[string(upper[:len(name)])]
	return cmd, ok
}

// noTransactions answers what clients send around a pipeline by default.
const noTransactions = "this socket has no transactions, since each call stands alone: " +
	"send a pipeline without MULTI and EXEC, in redis-py pipeline(transaction=False)"

// isTransaction reports whether the command is one of a Redis transaction.
func isTransaction(name []byte) bool {
	return slices.ContainsFunc([]string{"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"}, func(of string) bool {
		return strings.EqualFold(of, string(name))
	})
}

// isHTTP reports whether args are the first line of an HTTP request.
func isHTTP(args [][]byte) bool {
	return len(args) == 3 && bytes.HasPrefix(args[2], []byte("HTTP/1."))
}

func unknownCommand(args [][]byte) string {
	if isHTTP(args) {
		return "Protocol error: this socket speaks the Redis protocol; HTTP is on http.sock"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "unknown command '%.128s', with args beginning with: ", args[0])
	for _, arg := range args[1:] {
		if b.Len() > 256 {
			break
		}
		fmt.Fprintf(&b, "'%.64s' ", arg)
	}
	return b.String()
}

func appendWrongArity(dst, name []byte) []byte {
	return appendError(dst, "ERR", fmt.Sprintf("wrong number of arguments for '%.64s' command", bytes.ToLower(name)))
}

func (c *conn) ping(w *work) {
	switch args := w.parser.args; len(args) {
	case 1:
		w.out = appendSimple(w.out, "PONG")
	case 2:
		w.out = appendBulk(w.out, args[1])
	default:
		w.out = appendWrongArity(w.out, args[0])
	}
}

func (c *conn) echo(w *work) { w.out = appendBulk(w.out, w.parser.args[1]) }

func (c *conn) hello(w *work) {
	args := w.parser.args[1:]
	resp3, name := c.resp3, c.name
	if len(args) > 0 {
		switch string(args[0]) {
		case "2":
			resp3 = false
		case "3":
			resp3 = true
		default:
			w.out = appendError(w.out, "NOPROTO", "unsupported protocol version")
			return
		}
		args = args[1:]
	}
	for len(args) > 0 {
		switch option := strings.ToUpper(string(args[0])); {
		case option == "AUTH" && len(args) >= 3:
			w.out = appendError(w.out, "ERR", noPassword)
			return
		case option == "SETNAME" && len(args) >= 2 && isClientName(args[1]):
			name = string(args[1])
			args = args[2:]
		default:
			w.out = appendError(w.out, "ERR", fmt.Sprintf("Syntax error in HELLO option '%.64s'", args[0]))
			return
		}
	}
	c.resp3, c.name = resp3, name
	w.out = appendMap(w.out, 7, resp3)
	for _, pair := range [][2]string{{"server", "scriptorium"}, {"version", c.srv.opts.Version}} {
		w.out = appendBulk(w.out, pair[0])
		w.out = appendBulk(w.out, pair[1])
	}
	w.out = appendInt(appendBulk(w.out, "proto"), c.proto())
	w.out = appendInt(appendBulk(w.out, "id"), c.id)
	w.out = appendBulk(appendBulk(w.out, "mode"), "standalone")
	w.out = appendBulk(appendBulk(w.out, "role"), "master")
	w.out = appendArray(appendBulk(w.out, "modules"), 0)
}

func (c *conn) proto() int64 {
	if c.resp3 {
		return 3
	}
	return 2
}

const noPassword = "AUTH called without any password configured: the socket's file mode and the agent's access rules decide who may connect"

func (c *conn) auth(w *work) { w.out = appendError(w.out, "ERR", noPassword) }

func (c *conn) client(w *work) {
	args := w.parser.args[1:]
	switch sub := strings.ToUpper(string(args[0])); {
	case sub == "ID" && len(args) == 1:
		w.out = appendInt(w.out, c.id)
	case sub == "GETNAME" && len(args) == 1:
		if c.name == "" {
			w.out = appendNull(w.out, c.resp3)
			return
		}
		w.out = appendBulk(w.out, c.name)
	case sub == "SETNAME" && len(args) == 2:
		if !isClientName(args[1]) {
			w.out = appendError(w.out, "ERR", "Client names cannot contain spaces, newlines or special characters.")
			return
		}
		c.name = string(args[1])
		w.out = appendSimple(w.out, "OK")
	case sub == "SETINFO" && len(args) == 3, (sub == "NO-EVICT" || sub == "NO-TOUCH") && len(args) == 2:
		w.out = appendSimple(w.out, "OK")
	case (sub == "INFO" || sub == "LIST") && len(args) == 1:
		w.out = appendBulk(w.out, fmt.Sprintf("id=%d name=%s db=0 resp=%d\n", c.id, c.name, c.proto()))
	default:
		w.out = appendError(w.out, "ERR", fmt.Sprintf("unknown subcommand or wrong number of arguments for '%.64s'", args[0]))
	}
}

func isClientName(name []byte) bool {
	return len(name) <= 128 && bytes.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

func (c *conn) selectDB(w *work) {
	if string(w.parser.args[1]) != "0" {
		w.out = appendError(w.out, "ERR", "DB index is out of range: there is only 0")
		return
	}
	w.out = appendSimple(w.out, "OK")
}

func (c *conn) reset(w *work) {
	c.resp3, c.name = false, ""
	w.out = appendSimple(w.out, "RESET")
}

func (c *conn) quit(w *work) {
	w.out = appendSimple(w.out, "OK")
	c.closing = true
}

// config answers what redis-benchmark asks before it begins.
func (c *conn) config(w *work) {
	args := w.parser.args[1:]
	if !bytes.EqualFold(args[0], []byte("GET")) || len(args) < 2 {
		w.out = appendError(w.out, "ERR", "only CONFIG GET is there: the agent is configured by its flags")
		return
	}
	known := map[string]string{"save": "", "appendonly": "no"}
	var found []string
	for _, arg := range args[1:] {
		name := strings.ToLower(string(arg))
		if value, ok := known[name]; ok {
			delete(known, name)
			found = append(found, name, value)
		}
	}
	w.out = appendMap(w.out, len(found)/2, c.resp3)
	for _, s := range found {
		w.out = appendBulk(w.out, s)
	}
}

func (c *conn) info(w *work) {
	position := c.srv.opts.Executor.Position()
	staleness := "unknown"
	if position.Staleness >= 0 {
		staleness = strconv.FormatInt(position.Staleness.Milliseconds(), 10)
	}
	text := fmt.Sprintf("# Server\r\nserver_name:scriptorium\r\nscriptorium_version:%s\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"+
		"\r\n# Clients\r\nconnected_clients:%d\r\nmaxclients:%d\r\n"+
		"\r\n# Scriptorium\r\nrevision:%d\r\nstaleness_ms:%s\r\ncalls:%d\r\n",
		c.srv.opts.Version, c.srv.conns.Len(), c.srv.opts.Connections.Most(),
		position.Revision, staleness, c.srv.calls.Load())
	if c.resp3 {
		w.out = appendHeader(w.out, '=', int64(len("txt:")+len(text)))
		w.out = append(w.out, "txt:"...)
		w.out = append(append(w.out, text...), '\r', '\n')
		return
	}
	w.out = appendBulk(w.out, text)
}
