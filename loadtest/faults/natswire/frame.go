// Package natswire reads and writes the protocol of NATS, as far as it takes to
// break it: to drop, double, delay and reorder what a server sends, and to
// publish what nobody should.
package natswire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Bounds of a frame. A server's first line, INFO, is long; a message is as large
// as a server allows at most.
const (
	maxLine    = 64 << 10
	maxPayload = 8 << 20
)

// Frame is what a server sends at a time.
type Frame struct {
	Verb    string // "MSG", "HMSG", "INFO", "PING", "PONG", "+OK", "-ERR"
	Subject string // of MSG and HMSG
	Payload []byte // of MSG and HMSG: headers, if any, and body
	Raw     []byte // the whole frame, as it was sent
}

// Message reports whether the frame is a message of a subscription.
func (f *Frame) Message() bool { return f.Verb == "MSG" || f.Verb == "HMSG" }

// ReadFrame reads one frame. The error is io.EOF when there is none, and wraps
// ErrMalformed when what comes is not the protocol.
func ReadFrame(r *bufio.Reader) (Frame, error) {
	line, err := readLine(r)
	if err != nil {
		return Frame{}, err
	}
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return Frame{}, fmt.Errorf("%w: an empty line", ErrMalformed)
	}
	f := Frame{Verb: string(bytes.ToUpper(fields[0])), Raw: line}
	if !f.Message() {
		return f, nil
	}
	// MSG subject sid [reply] size; HMSG subject sid [reply] headers size
	least := 4
	if f.Verb == "HMSG" {
		least = 5
	}
	if len(fields) < least || len(fields) > least+1 {
		return Frame{}, fmt.Errorf("%w: %.80q", ErrMalformed, line)
	}
	size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 31)
	if err != nil || size > maxPayload {
		return Frame{}, fmt.Errorf("%w: size in %.80q", ErrMalformed, line)
	}
	f.Subject = string(fields[1])
	f.Raw = append(line, make([]byte, size+2)...)
	if _, err := io.ReadFull(r, f.Raw[len(line):]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	if !bytes.HasSuffix(f.Raw, []byte("\r\n")) {
		return Frame{}, fmt.Errorf("%w: a message that does not end where it says", ErrMalformed)
	}
	f.Payload = f.Raw[len(line) : len(f.Raw)-2]
	return f, nil
}

// ErrMalformed is for bytes that are not the protocol.
var ErrMalformed = errors.New("not the protocol of NATS")

// readLine returns a line with its end, as a slice of its own.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		case len(line) > maxLine:
			return nil, fmt.Errorf("%w: a line longer than %d bytes", ErrMalformed, maxLine)
		}
	}
}
