package respsock

import (
	"fmt"
	"strings"
)

// describe serves COMMAND: redis-cli reads it for its completion and hints.
func (c *conn) describe(w *work) {
	args := w.parser.args[1:]
	sub := ""
	if len(args) > 0 {
		sub = strings.ToUpper(string(args[0]))
		args = args[1:]
	}
	switch sub {
	case "":
		w.out = appendArray(w.out, len(commandList))
		for i := range commandList {
			w.out = appendCommandInfo(w.out, &commandList[i])
		}
	case "COUNT":
		w.out = appendInt(w.out, int64(len(commandList)))
	case "LIST":
		w.out = appendArray(w.out, len(commandList))
		for i := range commandList {
			w.out = appendBulk(w.out, strings.ToLower(commandList[i].name))
		}
	case "INFO":
		w.out = appendArray(w.out, len(args))
		for _, name := range args {
			if cmd, ok := lookup(name); ok {
				w.out = appendCommandInfo(w.out, cmd)
			} else {
				w.out = appendNull(w.out, c.resp3)
			}
		}
	case "DOCS":
		c.docs(w, args)
	default:
		w.out = appendError(w.out, "ERR", fmt.Sprintf("unknown subcommand '%.64s'", sub))
	}
}

func (c *conn) docs(w *work, names [][]byte) {
	var wanted []*command
	for _, name := range names {
		if cmd, ok := lookup(name); ok {
			wanted = append(wanted, cmd)
		}
	}
	if len(names) == 0 {
		for i := range commandList {
			wanted = append(wanted, &commandList[i])
		}
	}
	w.out = appendMap(w.out, len(wanted), c.resp3)
	for _, cmd := range wanted {
		w.out = appendBulk(w.out, strings.ToLower(cmd.name))
		w.out = appendMap(w.out, 4, c.resp3)
		w.out = appendBulk(appendBulk(w.out, "summary"), cmd.summary)
		w.out = appendBulk(appendBulk(w.out, "since"), "0.1.0")
		w.out = appendBulk(appendBulk(w.out, "group"), cmd.group)
		w.out = appendBulk(w.out, "arguments")
		if cmd.syntax == "" {
			w.out = appendArray(w.out, 0)
			continue
		}
		w.out = appendArray(w.out, 1)
		w.out = appendMap(w.out, 2, c.resp3)
		w.out = appendBulk(appendBulk(w.out, "name"), cmd.syntax)
		w.out = appendBulk(appendBulk(w.out, "type"), "string")
	}
}

// appendCommandInfo appends name, arity, flags, and the positions of keys, of
// which no command has any.
func appendCommandInfo(dst []byte, cmd *command) []byte {
	dst = appendArray(dst, 6)
	dst = appendBulk(dst, strings.ToLower(cmd.name))
	dst = appendInt(dst, int64(cmd.arity))
	dst = appendArray(dst, 1)
	dst = appendSimple(dst, "fast")
	for range 3 {
		dst = appendInt(dst, 0)
	}
	return dst
}
