package httpsock

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
)

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, headBytes) }}

// nextRequest returns the request for a decision that b begins with, and the size of its head. It is nil
// if the head is not whole, if a body follows, or if anything about it is unusual.
func nextRequest(b []byte) (req *http.Request, size int) {
	if size = wholeHead(b); size == 0 {
		return nil, 0
	}
	r := readers.Get().(*bufio.Reader)
	defer readers.Put(r)
	r.Reset(bytes.NewReader(b[:size]))
	req, err := http.ReadRequest(r)
	if err != nil || !isUsual(req) {
		return nil, 0
	}
	return req, size
}

// wholeHead returns the size of the head that b begins with, if it is one that only one reading has: its
// lines end in CR LF and go on in no other line, and it has one host. It is 0 otherwise.
func wholeHead(b []byte) int {
	hosts, size := 0, 0
	for lines := range maxFields {
		end := bytes.IndexByte(b[size:], '\n')
		if end < 1 || b[size+end-1] != '\r' {
			return 0
		}
		line := b[size : size+end-1]
		size += end + 1
		switch {
		case bytes.IndexByte(line, '\r') >= 0:
			return 0
		case lines == 0:
			_, target, ok := bytes.Cut(line, []byte(" "))
			if !ok || !bytes.HasPrefix(target, []byte(decidePrefix)) || !bytes.HasSuffix(target, []byte(" HTTP/1.1")) {
				return 0
			}
		case len(line) == 0:
			if hosts != 1 {
				return 0
			}
			return size
		case line[0] == ' ' || line[0] == '\t':
			return 0
		case len(line) > 4 && line[4] == ':' && bytes.EqualFold(line[:4], []byte("host")):
			hosts++
		}
	}
	return 0
}

// unusual are headers that say how a message or a connection goes on.
var unusual = []string{"Expect", "Upgrade", "Trailer", "Transfer-Encoding", "Te"}

// isUsual reports whether net/http would serve the request, and nothing but an answer follows it.
func isUsual(r *http.Request) bool {
	if r.Method == http.MethodHead || r.Method == http.MethodConnect || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Close {
		return false
	}
	if !httpguts.ValidHostHeader(r.Host) || r.URL.Host != "" {
		return false
	}
	for _, name := range unusual {
		if _, there := r.Header[name]; there {
			return false
		}
	}
	for _, value := range r.Header["Connection"] {
		if !strings.EqualFold(value, "keep-alive") {
			return false
		}
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	return true
}
