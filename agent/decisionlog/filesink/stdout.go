package filesink

import (
	"context"
	"errors"
	"io"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
)

// OpenStdout makes the sink of stdout.
func OpenStdout(t *decisionlog.Target, _ decisionlog.Env) (decisionlog.Sink, error) {
	if err := t.Err(); err != nil {
		return nil, err
	}
	if t.Where != "" {
		return nil, errors.New("has something behind the colon: want stdout alone")
	}
	out, err := ownStdout()
	if err != nil {
		return nil, err
	}
	return NewStream(out), nil
}

// Stream is a sink for a writer that cannot be truncated, such as a pipe.
type Stream struct {
	w    io.Writer
	buf  []byte
	part bool // the last line is incomplete
}

// NewStream returns a sink that writes to w. It does not close w.
func NewStream(w io.Writer) *Stream { return &Stream{w: w} }

// Write implements decisionlog.Sink.
func (s *Stream) Write(_ context.Context, records [][]byte) error {
	s.buf = s.buf[:0]
	if s.part { // end the incomplete line
		s.buf = append(s.buf, '\n')
	}
	for _, record := range records {
		s.buf = append(append(s.buf, record...), '\n')
	}
	n, err := s.w.Write(s.buf)
	if n > 0 {
		s.part = s.buf[n-1] != '\n'
	}
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
	return err
}

// Close implements decisionlog.Sink.
func (s *Stream) Close(context.Context) error { return nil }
