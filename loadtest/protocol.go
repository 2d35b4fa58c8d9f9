package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// protocol is how one call looks on a byte stream.
type protocol struct {
	request []byte
	// reply returns the length of the reply at the front of buf and the result
	// in it, nil if the call failed; 0 if it is not complete. What is no reply
	// is an error.
	reply func(buf []byte) (n int, result []byte, err error)
}

// respCommand encodes a command of the Redis protocol.
func respCommand(words ...string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b.Bytes()
}

func respCalls() protocol { return respCallsOf(routeRef) }

func respCallsOf(ref string) protocol {
	return protocol{request: respCommand("FCALL", ref, "0", routeArg), reply: respReply}
}

func redisCalls(sha string) protocol {
	return protocol{request: respCommand("EVALSHA", sha, "0", routeArg), reply: respReply}
}

// respReply reads a bulk string, which is what both servers answer, or an error.
func respReply(buf []byte) (int, []byte, error) {
	end := bytes.IndexByte(buf, '\n')
	if end < 0 {
		return 0, nil, nil
	}
	if buf[0] == '-' {
		return end + 1, nil, nil
	}
	if buf[0] != '$' || end < 2 {
		return 0, nil, fmt.Errorf("the server answers %.200q", buf)
	}
	size, err := strconv.Atoi(string(buf[1 : end-1]))
	if err != nil || size < 0 {
		return 0, nil, fmt.Errorf("the server answers %.200q", buf)
	}
	n := end + 1 + size + 2
	if len(buf) < n {
		return 0, nil, nil
	}
	return n, buf[end+1 : n-2], nil
}

func httpCalls() protocol {
	request := fmt.Sprintf("POST /v1/execute/%s HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		routeRef, len(routeArg), routeArg)
	return protocol{request: []byte(request), reply: httpReply}
}

// httpReply reads a response that has a Content-Length.
func httpReply(buf []byte) (int, []byte, error) {
	head, _, ok := bytes.Cut(buf, []byte("\r\n\r\n"))
	if !ok {
		return 0, nil, nil
	}
	const length = "\r\nContent-Length: "
	at := bytes.Index(head, []byte(length))
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) || at < 0 {
		return 0, nil, fmt.Errorf("the server answers %.500q", buf)
	}
	digits := head[at+len(length):]
	if end := bytes.IndexByte(digits, '\r'); end >= 0 {
		digits = digits[:end]
	}
	size, err := strconv.Atoi(strings.TrimSpace(string(digits)))
	if err != nil {
		return 0, nil, fmt.Errorf("the server answers %.500q", buf)
	}
	start := len(head) + len("\r\n\r\n")
	if len(buf) < start+size {
		return 0, nil, nil
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return start + size, nil, nil
	}
	return start + size, buf[start : start+size], nil
}
