package hostile

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// The frames that HAProxy sends.
const (
	spopHelloFrame  = 1
	spopNotifyFrame = 3
	spopAckFrame    = 103
)

// spopFrame is a frame of one stream with less than 240 bytes in its numbers.
func spopFrame(kind byte, stream byte, payload string) string {
	head := []byte{0, 0, 0, 0, kind, 0, 0, 0, 1, stream, stream}
	binary.BigEndian.PutUint32(head, uint32(len(head)-4+len(payload)))
	return string(head) + payload
}

// spopText is text with its length, as names are.
func spopText(s string) string {
	n := len(s)
	if n < 240 {
		return string([]byte{byte(n)}) + s
	}
	length := []byte{byte(n) | 240}
	for n = (n - 240) >> 4; n >= 128; n = (n - 128) >> 7 {
		length = append(length, byte(n)|128)
	}
	return string(append(length, byte(n))) + s
}

// spopPairs is a list of names and texts.
func spopPairs(words ...string) string {
	var b strings.Builder
	for i := 0; i < len(words); i += 2 {
		b.WriteString(spopText(words[i]) + "\x08" + spopText(words[i+1]))
	}
	return b.String()
}

func spopHello(able string) string {
	return spopFrame(spopHelloFrame, 0, spopPairs("supported-versions", "2.0", "capabilities", able)+spopText("max-frame-size")+"\x03\xfc\xf0\x06")
}

// spopAsk asks for a decision.
func spopAsk(stream byte, args ...string) string {
	return spopFrame(spopNotifyFrame, stream, spopText("scriptorium")+string([]byte{byte(len(args) / 2)})+spopPairs(args...))
}

func spopAttacks() []attack {
	begin := spopHello("pipelining")
	ask := spopAsk(1, "script", "acme/echo", "body", strings.Repeat("x", 15_000))
	small := spopAsk(1, "script", "acme/echo")
	return slicesOf("SPOP", []attack{
		sends("absurd lengths of frames", "\xff\xff\xff\xff", "\x00\x00\x00\x00", "\x7f\xff\xff\xff\x01", begin+"\x00\x01\x00\x00\x03", begin+"\x80\x00\x00\x00"),
		sends("numbers that do not end", begin+spopFrame(spopNotifyFrame, 1, strings.Repeat("\xff", 16_000)), begin+spopFrame(spopNotifyFrame, 1, "\x0bscriptorium\x01\x04body\x09"+strings.Repeat("\xff", 9)+"\x7f")),
		sends("handshakes that cannot be, and two", spopFrame(spopHelloFrame, 0, ""), spopFrame(spopHelloFrame, 1, "\xff"), begin+begin, small, spopHello(strings.Repeat("async,", 2_000))),
		sends("fragments, and frames of unknown types", begin+strings.Repeat(spopFrame(77, 1, strings.Repeat("x", 16_000)), 200), begin+"\x00\x00\x00\x07\x03\x00\x00\x00\x00\x01\x01", begin+spopFrame(0, 1, "")),
		sends("other protocols", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "*1\r\n$4\r\nPING\r\n", everyByte(), begin+everyByte()),
		sends("thousands of headers, parameters and arguments", begin+strings.Repeat(spopAsk(1, "script", "acme/echo", "headers", strings.Repeat("a:\n", 5_000)), 50),
			begin+strings.Repeat(spopAsk(1, "script", "acme/echo", "headers", headersOfOneByte()), 50)),
		{idea: "one byte at a time", own: true, run: func(a *arena) {
			for range 20 {
				conn := a.dial()
				drain(conn)
				for _, b := range []byte(begin + small + small) {
					send(conn, string([]byte{b}))
				}
			}
		}},
		{idea: "frames whose last byte is missing", own: true, most: strangers, run: func(a *arena) { a.each(900, begin+ask[:len(ask)-1]) }},
		{idea: "the same of a user without a grant", from: []int{stranger}, most: strangers, run: func(a *arena) { a.each(200, begin+ask[:len(ask)-1]) }},
		{idea: "questions without end, and nobody reads the answers", own: true, most: oneCaller, run: func(a *arena) { a.atOnce(64, begin+strings.Repeat(small, 20_000)) }},
		{idea: "large questions without end", own: true, most: oneCaller, run: func(a *arena) {
			for range 64 {
				conn := a.dial()
				drain(conn)
				send(conn, begin+strings.Repeat(ask, 100))
			}
		}},
		{idea: "questions whose clients are gone at once", own: true, most: strangers, run: func(a *arena) {
			for range 500 {
				conn := a.dial()
				send(conn, begin+small+small)
				_ = conn.Close()
			}
		}},
	})
}

// headersOfOneByte are as many as fit into a frame, each of another name.
func headersOfOneByte() string {
	var b strings.Builder
	for i := range 2_500 {
		fmt.Fprintf(&b, "%x:\n", i)
	}
	return b.String()
}

// overSPOP asks for decisions: the echo of a request is none, and has an answer that says so.
func overSPOP(path, ref string) caller {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err = io.WriteString(conn, spopHello("pipelining")); err == nil {
			_, err = spopRead(conn)
		}
	}
	if err != nil {
		return caller{func(int) error { return err }, func() {
			if conn != nil {
				conn.Close()
			}
		}}
	}
	return caller{func(n int) error {
		_ = conn.SetDeadline(time.Now().Add(patience))
		stream := byte(n % 240)
		if _, err := io.WriteString(conn, spopAsk(stream, "script", ref)); err != nil {
			return err
		}
		frame, err := spopRead(conn)
		if err != nil || len(frame) < 7 || frame[0] != spopAckFrame || frame[5] != stream || !strings.Contains(frame, "\x06reason\x08\x07INVALID") || !strings.Contains(frame, "\x07version") {
			return fmt.Errorf("%.200q, %w", frame, err)
		}
		return nil
	}, func() { conn.Close() }}
}

func spopRead(conn net.Conn) (frame string, err error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err = io.ReadFull(conn, text)
	return string(text), err
}
