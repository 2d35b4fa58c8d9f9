package dev

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is how long a person waits without a word.
const progressInterval = time.Second

// lineWriter lets several write lines at once.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (w *lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(line)
}

// progress says what is waited for, if that takes long, and again when it is something
// else.
type progress struct {
	mu   sync.Mutex
	what string
	done chan struct{}
	over sync.WaitGroup
}

func startProgress(out io.Writer) *progress {
	p := &progress{done: make(chan struct{})}
	p.over.Go(func() {
		every := time.NewTicker(progressInterval)
		defer every.Stop()
		for said := ""; ; {
			select {
			case <-p.done:
				return
			case <-every.C:
			}
			p.mu.Lock()
			what := p.what
			p.mu.Unlock()
			if what != said {
				fmt.Fprintln(out, what)
				said = what
			}
		}
	})
	return p
}

// waitFor says what is waited for from now on.
func (p *progress) waitFor(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = fmt.Sprintf(format, args...)
}

// stop ends it: nothing is said any more.
func (p *progress) stop() {
	close(p.done)
	p.over.Wait()
}
