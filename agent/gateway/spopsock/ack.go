package spopsock

import (
	"strconv"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

const (
	actionSetVar     = 1
	setVarArgs       = 3
	scopeTransaction = 2
)

// variables appends actions that set variables of the transaction.
type variables struct{ dst []byte }

func (v *variables) set(name string, to value) {
	v.dst = append(v.dst, actionSetVar, setVarArgs, scopeTransaction)
	v.dst = appendPair(v.dst, name, to)
}

func (v *variables) setText(name, text string) { v.set(name, textValue(text)) }

// ran is what has decided: one script, of which it is the version, or a chain.
type ran struct {
	version uint64
	chain   string
}

// appendAck appends the answer to a question: a frame of at most so many bytes.
func appendAck(dst []byte, h header, d decision.Decision, by ran, most int) ([]byte, error) {
	if err := checkNames(d); err != nil {
		return dst, err
	}
	start := len(dst)
	h.kind, h.flags = frameAck, flagFinal
	dst = appendFrame(dst, h, func(dst []byte) []byte {
		v := variables{dst}
		v.set("allow", boolValue(d.Allow))
		if by.version != 0 {
			v.set("version", value{kind: kindUint64, number: by.version})
		}
		if by.chain != "" {
			v.setText("chain", by.chain)
		}
		if d.Allow {
			v.passed(d)
		} else {
			v.set("status", value{kind: kindInt32, number: uint64(d.Status)})
			if d.Body != "" {
				v.setText("body", d.Body)
			}
		}
		v.changes("response", "res.", d.Response)
		return v.dst
	})
	if size := len(dst) - start - lengthSize; size > most {
		return dst[:start], script.Errorf(script.Limit, "", "the decision takes a frame of %d bytes, and HAProxy takes %d: have the script return less, or raise tune.bufsize", size, most)
	}
	return dst, nil
}

// passed sets what concerns the upstream.
func (v *variables) passed(d decision.Decision) {
	v.changes("request", "req.", d.Request)
	if d.Upstream != "" {
		v.setText("upstream", d.Upstream)
	}
	if d.Path != nil {
		v.setText("path", *d.Path)
	}
	if d.Query != nil {
		v.setText("query", *d.Query)
	}
	if d.Metadata != nil {
		v.setText("metadata", string(d.Metadata))
	}
}

// changes sets a variable for each header: prefix + "x_user" for one that is set,
// prefix + "del.x_user" for one that is removed, and prefix + "add.x_user" for one that is
// appended, with ".2" and so on behind further ones. The list has them all.
func (v *variables) changes(list, prefix string, c decision.Changes) {
	var all []byte
	for _, name := range c.Remove {
		v.set(prefix+"del."+variable(name), boolValue(true))
		all = append(append(all, " -"...), name...)
	}
	for _, h := range c.Set {
		if h.Name == decision.ReasonHeader {
			v.setText("reason", h.Value)
			continue
		}
		v.setText(prefix+variable(h.Name), h.Value)
		all = append(append(all, " ="...), h.Name...)
	}
	count := map[string]int{}
	for _, h := range c.Append {
		name := prefix + "add." + variable(h.Name)
		if count[name]++; count[name] > 1 {
			name += "." + strconv.Itoa(count[name])
		}
		v.setText(name, h.Value)
		all = append(append(all, " +"...), h.Name...)
	}
	if all != nil {
		v.setText(list, string(all[1:]))
	}
}

// variable returns the name of a header as names of variables are: letters, digits and "_".
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

// checkNames returns an error if two headers of the decision have the same variable: "x-user" and
// "x_user" do.
func checkNames(d decision.Decision) error {
	for _, c := range []decision.Changes{d.Request, d.Response} {
		names := map[string]string{}
		check := func(name string) error {
			v := variable(name)
			if other, ok := names[v]; ok && other != name {
				return script.Errorf(script.Invalid, "headers", "%s and %s have the same variable in HAProxy: use one of them", other, name)
			}
			names[v] = name
			return nil
		}
		for _, name := range c.Remove {
			if err := check(name); err != nil {
				return err
			}
		}
		for _, h := range append(c.Set[:len(c.Set):len(c.Set)], c.Append...) {
			if err := check(h.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
