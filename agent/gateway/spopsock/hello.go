package spopsock

import (
	"strings"
)

const (
	version      = "2.0"
	capabilities = "pipelining,async"
)

// terms are what both ends of a connection have agreed on.
type terms struct {
	check      bool // only whether there is an agent
	maxFrame   int
	concurrent bool // answers may come in another order than their questions
}

// parseHello reads the payload of HAProxy's first frame. most is the largest frame of ours.
func parseHello(h header, d *decoder, most int) (t terms, err error) {
	var versions, able, size *value
	for d.more() {
		name, v := d.string(), d.value()
		switch name {
		case "supported-versions":
			versions = &v
		case "max-frame-size":
			size = &v
		case "capabilities":
			able = &v
		case "healthcheck":
			t.check = v.truth
		}
	}
	switch {
	case d.failed, h.stream != 0, h.frame != 0:
		return t, disconnect(statusInvalid, "HELLO is malformed")
	case versions == nil || versions.kind != kindString:
		return t, disconnect(statusNoVersion, "HELLO has no supported-versions")
	case size == nil || size.kind < kindInt32 || size.kind > kindUint64:
		return t, disconnect(statusNoFrameSize, "HELLO has no max-frame-size")
	case able == nil || able.kind != kindString:
		return t, disconnect(statusNoCapability, "HELLO has no capabilities")
	case !speaksOurs(versions.text):
		return t, disconnect(statusVersion, "this agent speaks only SPOP %s, and not %.20q", version, versions.text)
	case size.number < leastFrame:
		return t, disconnect(statusFrameSize, "max-frame-size is %d: want at least %d", size.number, leastFrame)
	}
	t.maxFrame = int(min(size.number, uint64(most)))
	for name := range strings.SplitSeq(able.text, ",") {
		switch strings.TrimSpace(name) {
		case "pipelining", "async":
			t.concurrent = true
		}
	}
	return t, nil
}

// speaksOurs reports whether one of the versions includes ours: 2.1 does.
func speaksOurs(versions string) bool {
	major, _, _ := strings.Cut(version, ".")
	for v := range strings.SplitSeq(versions, ",") {
		if m, _, ok := strings.Cut(strings.TrimSpace(v), "."); ok && m == major {
			return true
		}
	}
	return false
}

// appendHello appends the answer to HELLO.
func appendHello(dst []byte, t terms) []byte {
	return appendFrame(dst, header{kind: frameAgentHello, flags: flagFinal}, func(dst []byte) []byte {
		dst = appendPair(dst, "version", textValue(version))
		dst = appendPair(dst, "max-frame-size", numberValue(uint64(t.maxFrame)))
		return appendPair(dst, "capabilities", textValue(capabilities))
	})
}

// parseDisconnect reads why HAProxy ends the connection.
func parseDisconnect(d *decoder) *disconnection {
	why := &disconnection{}
	for d.more() {
		switch name, v := d.string(), d.value(); name {
		case "status-code":
			why.status = status(v.number)
		case "message":
			why.reason = v.text
		}
	}
	return why
}
