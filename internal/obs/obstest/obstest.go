// Package obstest is for tests that look at what a process logs or prints.
package obstest

import (
	"bytes"
	"sync"
)

// Output keeps what is written to it. It can be read while it is written; the zero
// Output is empty.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
