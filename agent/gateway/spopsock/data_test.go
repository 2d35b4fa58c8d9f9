package spopsock

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

func sorted(vars map[string]value) []string { return slices.Sorted(maps.Keys(vars)) }

// TestNumbers: the bounds are those of SPOE.txt, section 3.1.
func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "\x00", 239: "\xef", 240: "\xf0\x00", 255: "\xff\x00", 256: "\xf0\x01", 2287: "\xff\x7f", 2288: "\xf0\x80\x00", 264431: "\xff\xff\x7f", 264432: "\xf0\x80\x80\x00",
		33818863: "\xff\xff\xff\x7f", 33818864: "\xf0\x80\x80\x80\x00", 1<<64 - 1: "\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e",
	} {
		if got := string(appendVarint(nil, n)); got != want {
			t.Errorf("%d is %x, want %x", n, got, want)
		}
		if d := (decoder{text: want}); d.varint() != n || d.failed || d.text != "" {
			t.Errorf("%x is no %d", want, n)
		}
	}
	for _, bad := range []string{"", "\xf0", "\xf0\x80", "\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0f", strings.Repeat("\xff", 9) + "\x7f", strings.Repeat("\xff", 100)} {
		if d := (decoder{text: bad}); d.varint() != 0 || !d.failed {
			t.Errorf("%x is a number", bad)
		}
	}
}

func TestValues(t *testing.T) {
	for encoded, want := range map[string]string{
		"\x00": "", "\x01": "false", "\x11": "true", "\x02\x07": "7", "\x03\xf0\x00": "240", "\x04\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e": "-1",
		"\x05\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0e": "18446744073709551615", "\x06\xc0\x00\x02\x07": "192.0.2.7",
		"\x07" + strings.Repeat("\x00", 15) + "\x01":                     "::1",
		"\x07" + strings.Repeat("\x00", 10) + "\xff\xff\xc0\x00\x02\x07": "192.0.2.7",
		"\x08\x02hi": "hi", "\x09\x02h\x00": "h\x00",
	} {
		d := decoder{text: encoded}
		v := d.value()
		if d.failed || d.text != "" || v.String() != want {
			t.Errorf("%x is %q, want %q", encoded, v.String(), want)
		}
		if again := string(appendValue(nil, v)); again != encoded {
			t.Errorf("%x becomes %x", encoded, again)
		}
	}
	for _, bad := range []string{"", "\x02", "\x06\x01\x02\x03", "\x07\x01", "\x08\x02h", "\x08\xff\xf0\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x0eh", "\x0a", "\x0f"} {
		if d := (decoder{text: bad}); d.value() != (value{}) || !d.failed || d.more() {
			t.Errorf("%x is a value", bad)
		}
	}
}

// TestHeads: the bytes are those of frames that HAProxy 2.6 sends.
func TestHeads(t *testing.T) {
	frame, n, err := nextFrame([]byte("\x00\x00\x00\x0a\x03\x00\x00\x00\x01\xf2\x01\x01xy\x00"), 16380)
	if err != nil || n != 14 {
		t.Fatal(n, err)
	}
	d := &decoder{text: string(frame)}
	if h, err := parseHeader(d); err != nil || h != (header{frameNotify, flagFinal, 258, 1}) || d.text != "xy" {
		t.Errorf("%+v, %v, %q", h, err, d.text)
	}
}

// FuzzFrames: whatever comes, nothing panics, what is taken is what was there, and a message that
// can be read is the same after it was written again.
func FuzzFrames(f *testing.F) {
	f.Add(hello("2.0", 16380, "pipelining,async"))
	f.Add(ask(7, text("script", "acme/echo"), arg{"headers", value{kind: kindBinary, text: "\x01a\x01b\x00\x00"}}, arg{"src", value{kind: kindIPv4, text: "\x01\x02\x03\x04"}}))
	f.Add(ask(7, text("script", "acme/echo"), text("headers", "a: b\r\n\r\n")))
	f.Add((&disconnection{statusInvalid, "no"}).append(nil))
	f.Add([]byte("\xff\xff\xff\xff\x03"))
	f.Fuzz(func(t *testing.T, in []byte) {
		frame, n, err := nextFrame(in, 16380)
		var why *disconnection
		if err != nil && !errors.As(err, &why) || n > len(in) || n > 0 && (n != lengthSize+len(frame) || len(frame) > 16380 || int(binary.BigEndian.Uint32(in)) != len(frame)) {
			t.Fatalf("%d of %d bytes, %v", n, len(in), err)
		}
		if n == 0 {
			return
		}
		d := &decoder{text: string(frame)}
		h, err := parseHeader(d)
		if err != nil {
			return
		}
		payload := d.text
		again := appendFrame(nil, h, func(dst []byte) []byte { return append(dst, payload...) })
		if string(again) != string(in[:n]) {
			t.Errorf("%x\nbecomes\n%x", in[:n], again)
		}
		roundTrip(t, payload)
		_, _ = parseHello(h, &decoder{text: payload}, 16384)
		_ = parseDisconnect(&decoder{text: payload})
		q, err := parseNotify(&decoder{text: payload})
		if err == nil && len(q.request.Argument(nil, "acme")) > 6*len(payload)*3+1000 {
			t.Error("the argument is far larger than the message")
		}
	})
}

// roundTrip reads pairs and writes them again.
func roundTrip(t *testing.T, payload string) {
	t.Helper()
	d := &decoder{text: payload}
	var again []byte
	for d.more() {
		name, v := d.string(), d.value()
		if d.failed {
			return
		}
		again = appendPair(again, name, v)
	}
	// Flags that have no meaning are not written again.
	e := &decoder{text: string(again)}
	d = &decoder{text: payload}
	for d.more() {
		if a, b := d.string(), e.string(); a != b {
			t.Fatalf("the name %q becomes %q", a, b)
		}
		if a, b := d.value(), e.value(); a != b {
			t.Fatalf("%+v becomes %+v", a, b)
		}
	}
	if e.more() || e.failed || d.failed {
		t.Errorf("%x becomes %x", payload, again)
	}
}
