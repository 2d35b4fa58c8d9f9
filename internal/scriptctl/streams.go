package scriptctl

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Streams are where a run reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// InTerminal: a person can answer. OutTerminal, ErrTerminal: what was
	// printed can be drawn over.
	InTerminal, OutTerminal, ErrTerminal bool
	// Size returns columns and lines of the terminal.
	Size func() (width, height int)
}

// Standard returns the process's own streams.
func Standard() Streams {
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Size: func() (int, int) {
			for _, f := range []*os.File{os.Stdout, os.Stderr} {
				if w, h, err := term.GetSize(int(f.Fd())); err == nil {
					return w, h
				}
			}
			return 80, 24
		},
	}
}

// output keeps the first error of its writer: a command whose output is lost has failed.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(data []byte) (int, error) {
	n, err := o.Writer.Write(data)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// canvas is a part of a terminal that is drawn over, at the end of what was
// printed.
type canvas struct {
	out   io.Writer
	size  func() (width, height int)
	drawn int
}

// draw replaces what was drawn before, as far as the screen holds it.
func (c *canvas) draw(lines []string) {
	width, height := c.size()
	if most := max(1, height-1); len(lines) > most {
		more := fmt.Sprintf("… and %d more", len(lines)-most+1)
		lines = append(lines[:most-1:most-1], more)
	}
	var b strings.Builder
	b.WriteString(c.erase())
	for _, line := range lines {
		if runes := []rune(line); len(runes) > width && width > 0 {
			line = string(runes[:width-1]) + "…"
		}
		b.WriteString(line + "\n")
	}
	c.drawn = len(lines)
	_, _ = io.WriteString(c.out, b.String()) // a terminal that is gone shows nothing
}

// clear takes away what was drawn.
func (c *canvas) clear() {
	_, _ = io.WriteString(c.out, c.erase())
	c.drawn = 0
}

func (c *canvas) erase() string {
	if c.drawn == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", c.drawn)
}
