package hostile

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	mib = 1 << 20
	// halfCall is a call whose argument is missing.
	halfCall = "*4\r\n$5\r\nFCALL\r\n$9\r\nacme/echo\r\n$1\r\n0\r\n$"
)

func respAttacks() []attack {
	all := slicesOf("RESP: framing", respFraming())
	all = append(all, slicesOf("RESP: unfinished commands", respUnfinished())...)
	return append(all, slicesOf("RESP: commands and replies", respReplies())...)
}

// slicesOf names the family, and the socket after the family's first word.
func slicesOf(family string, attacks []attack) []attack {
	protocol, _, _ := strings.Cut(family, ":")
	for i := range attacks {
		attacks[i].family = family
		if attacks[i].socket == "" {
			attacks[i].socket = strings.ToLower(protocol)
		}
	}
	return attacks
}

// sends is an attack that sends each of the texts on connections of their own, and reads.
func sends(idea string, texts ...string) attack {
	return attack{idea: idea, run: func(a *arena) {
		for range 3 {
			for _, text := range texts {
				conn := a.dial()
				drain(conn)
				send(conn, text)
			}
		}
	}}
}

func respFraming() []attack {
	return []attack{
		sends("absurd array lengths", "*2147483647\r\n", "*-1\r\n", "*-2147483648\r\n", "*99999999999999999999\r\n", "*0000000001\r\n", "*\r\n", "*+1\r\n", "*1e9\r\n"),
		sends("absurd bulk lengths", "*1\r\n$2147483647\r\n", "*1\r\n$-1\r\n", "*1\r\n$99999999999999999999\r\n", "*1\r\n$0x10\r\n", "*1\r\n$ 1\r\na\r\n"),
		sends("lengths that end without a line feed", "*1\r", "*1\rx", "*1\r\n$4\rPING\r\n", strings.Repeat("*", 1<<16)),
		sends("bulk strings that are longer or shorter than they say", "*1\r\n$2\r\nPING\r\n", "*1\r\n$9\r\nPING\r\n*1\r\n$4\r\n"),
		sends("arrays in arrays", strings.Repeat("*1\r\n", 100_000)),
		sends("types of RESP3 as commands", "%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n", ">1\r\n+a\r\n", "|1\r\n+a\r\n", "=5\r\ntxt:a\r\n", "(1\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "!3\r\nERR\r\n", "$?\r\n", "*?\r\n"),
		sends("empty commands without end", strings.Repeat("\r\n", 500_000), strings.Repeat("*0\r\n", 250_000), strings.Repeat(" \n", 500_000)),
		sends("lines without end", strings.Repeat("a", 200_000), strings.Repeat("a ", 100_000), strings.Repeat("\x00", 200_000)),
		sends("lines with quotes that do not end", `PING "`+strings.Repeat(`\x00`, 15_000)+"\n", "PING '"+strings.Repeat(`\'`, 30_000)+"\n", strings.Repeat(`"" `, 20_000)+"\n"),
		sends("lines with too many words", strings.Repeat("a ", 32_000)+"\n"),
		sends("other protocols", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x00", 500), "SSH-2.0-x\r\n", "\x04\x01\x00\x50\x7f\x00\x00\x01\x00"),
		sends("all bytes there are", everyByte(), "*1\r\n$256\r\n"+everyByte()+"\r\n"),
		{idea: "one byte at a time", own: true, run: func(a *arena) {
			for range 20 {
				conn := a.dial()
				drain(conn)
				for _, b := range command("FCALL", "acme/echo", "0", "1") + command("PING") {
					send(conn, string(b))
				}
			}
		}},
	}
}

func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

func respUnfinished() []attack {
	large := fmt.Sprintf("%s%d\r\n%s", halfCall, mib, strings.Repeat("1", mib-1))
	return []attack{
		{idea: "large arguments whose last byte is missing", own: true, most: oneCaller, run: func(a *arena) { a.atOnce(400, large) }},
		{idea: "the same of two users", from: []int{bad, worse}, most: allCallers, run: func(a *arena) { a.atOnce(400, large) }},
		{idea: "the same of a user without a grant", from: []int{stranger}, most: strangers, run: func(a *arena) { a.atOnce(200, large) }},
		{idea: "arguments of 40 KB that do not end", own: true, most: strangers, run: func(a *arena) {
			a.atOnce(900, fmt.Sprintf("%s40000\r\n%s", halfCall, strings.Repeat("1", 39_000)))
		}},
		{idea: "lengths of a MiB, and nothing after them", own: true, most: oneCaller, run: func(a *arena) { a.each(900, fmt.Sprintf("%s%d\r\n", halfCall, mib)) }},
		{idea: "commands just below what is charged", most: strangers, run: func(a *arena) {
			a.atOnce(900, fmt.Sprintf("%s16000\r\n%s", halfCall, strings.Repeat("1", 15_900)))
		}},
		{idea: "a first byte each", run: func(a *arena) { a.each(900, "*") }},
		{idea: "large arguments, and large calls of others between them", most: oneCaller, run: func(a *arena) {
			a.atOnce(150, large)
			if got := a.answers(command("FCALL", "acme/echo", "0", `"`+strings.Repeat("1", 100_000)+`"`)); !strings.HasPrefix(got, "$100002") {
				a.Errorf("a call of 100 KB got %.100q", got)
			}
		}},
		{idea: "thousands of elements, of which the last is missing", most: strangers, run: func(a *arena) {
			a.each(300, "*2000\r\n"+strings.Repeat("$1\r\na\r\n", 1999))
		}},
		{idea: "half a command, after a large reply", own: true, most: oneCaller, run: func(a *arena) {
			docs := command(append([]string{"COMMAND", "DOCS"}, slices.Repeat([]string{"auth"}, 1200)...)...)
			for range 300 {
				conn := a.dial()
				drain(conn)
				send(conn, docs+"*2000\r\n"+strings.Repeat("$1\r\na\r\n", 1999))
			}
		}},
	}
}

// pipelined sends the command often, and reads no reply.
func pipelined(idea string, most int64, conns, times int, words ...string) attack {
	return attack{idea: idea, most: most, own: true, run: func(a *arena) {
		a.atOnce(conns, strings.Repeat(command(words...), times))
	}}
}

func respReplies() []attack {
	return []attack{
		{idea: "replies of 1 MB that nobody reads", most: oneCaller, run: func(a *arena) { a.atOnce(300, command("FCALL", "acme/big", "0")) }},
		pipelined("large messages that come back, and nobody reads them", oneCaller, 64, 8, "ECHO", strings.Repeat("a", 500_000)),
		pipelined("PING without end, and nobody reads the replies", oneCaller, 64, 20_000, "PING"),
		pipelined("the list of commands, and nobody reads it", oneCaller, 64, 2_000, "COMMAND"),
		pipelined("documentation of commands, and nobody reads it", oneCaller, 64, 500, "COMMAND", "DOCS"),
		pipelined("INFO, and nobody reads it", oneCaller, 64, 2_000, "INFO"),
		pipelined("errors, and nobody reads them", oneCaller, 64, 2_000, strings.Repeat("x", 100), strings.Repeat("y", 100)),
		pipelined("changes of the protocol", oneCaller, 16, 5_000, "HELLO", "3"),
		pipelined("passwords of 1 MB", oneCaller, 16, 3, "AUTH", strings.Repeat("a", 1_000_000)),
		{idea: "names of scripts, each another", run: func(a *arena) {
			var b strings.Builder
			for i := range 20_000 {
				b.WriteString(command("FCALL", fmt.Sprintf("acme/x%d", i), "0"))
			}
			for range 8 {
				conn := a.dial()
				drain(conn)
				send(conn, b.String())
			}
		}},
		{idea: "names of clients", run: func(a *arena) {
			a.each(500, command("CLIENT", "SETNAME", strings.Repeat("a", 128))+command("CLIENT", "SETNAME", strings.Repeat("b", 10_000)))
		}},
		{idea: "arguments that are deep JSON", most: oneCaller, run: func(a *arena) {
			a.answers(command("FCALL", "acme/echo", "0", strings.Repeat("[", 500_000)))
			a.answers(command("FCALL", "acme/echo", "0", strings.Repeat(`{"a":`, 100_000)))
		}},
		{idea: "calls of tenants that are not granted", from: []int{bad, stranger}, own: true, run: func(a *arena) {
			if got := a.answers(strings.Repeat(command("FCALL", "shop/echo", "0", "1"), 1000)); strings.Contains(got, "$1\r\n1") || !strings.Contains(got, "-DENIED") {
				a.Errorf("got %.200q", got)
			}
		}},
		{idea: "replies that are read byte by byte", most: oneCaller, run: func(a *arena) {
			for range 20 {
				conn := a.dial()
				send(conn, command("FCALL", "acme/big", "0"))
				for range 100 {
					one(conn)
				}
			}
		}},
	}
}

// one reads a byte.
func one(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(writeTime))
	_, _ = conn.Read(make([]byte, 1))
}
