package scriptctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/scriptrepl"
	"github.com/scriptorium-dev/scriptorium/script"
)

// maxLine is the longest line that interact reads.
const maxLine = script.MaxSourceBytes

// interact runs the lines of standard input, with a script that compiles.
func (a *app) interact(ctx context.Context, m *manifest.Manifest, next func() offline.Call) error {
	session, err := scriptrepl.New(ctx, engines.Offline(), m, next)
	if err != nil {
		return runError(err)
	}
	if session.Hidden() {
		a.notice("the script ends with return, so lines do not see its local variables")
	}
	var text string
	for line, err := range a.inputLines(ctx, func() string { return text }) {
		if err != nil {
			return err
		}
		switch command := strings.TrimSpace(line); {
		case text == "" && command == "":
			continue
		case text == "" && command == ":quit":
			return nil
		case text == "" && command == ":reset":
			session.Reset()
			continue
		case text != "":
			line = text + "\n" + line
		}
		if text = ""; !strings.HasSuffix(line, "\n") && session.Incomplete(line) {
			text = line
			continue
		}
		if err := a.runLine(ctx, session, m.Name, line); err != nil {
			if !a.InTerminal || ctx.Err() != nil {
				return err
			}
			a.printError(err)
		}
	}
	if text == "" {
		return nil
	}
	return a.runLine(ctx, session, m.Name, text)
}

// inputLines reads the lines of standard input until ctx ends. A person is asked for each; begun returns the text that
// the line continues.
func (a *app) inputLines(ctx context.Context, begun func() string) func(func(string, error) bool) {
	type read struct {
		line string
		err  error
	}
	return func(yield func(string, error) bool) {
		wanted, lines := make(chan bool), make(chan read, 1) // a read of a terminal does not end with ctx
		defer close(wanted)
		go func() {
			defer close(lines)
			in := bufio.NewScanner(a.In)
			in.Buffer(nil, maxLine)
			for range wanted {
				if in.Scan() {
					lines <- read{line: in.Text()}
					continue
				}
				if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
					lines <- read{err: usage(script.Errorf(script.Invalid, "", "a line of standard input is longer than %s", byteSize(maxLine)))}
				} else if err != nil {
					lines <- read{err: fmt.Errorf("standard input: %w", err)}
				}
				return
			}
		}()
		for {
			if a.InTerminal {
				prompt := "> "
				if begun() != "" {
					prompt = ">> "
				}
				fmt.Fprint(a.Err, prompt)
			}
			wanted <- true
			select {
			case r, ok := <-lines:
				if !ok && a.InTerminal {
					fmt.Fprintln(a.Err) // after the prompt
				}
				if !ok || !yield(r.line, r.err) || r.err != nil {
					return
				}
			case <-ctx.Done():
				yield("", fmt.Errorf("run was interrupted: %w", context.Cause(ctx)))
				return
			}
		}
	}
}

// runLine runs a line and prints what it returned.
func (a *app) runLine(ctx context.Context, session *scriptrepl.Session, name script.Name, line string) error {
	out, err := session.Eval(ctx, line)
	if err != nil {
		return runError(err)
	}
	for _, lost := range out.Lost {
		a.notice("the variable %s does not stay, because JSON cannot say it: use it in the line that sets it, or add it to the script", plain(lost))
	}
	if a.output != formatTable {
		return a.printEach(a.Out, runView{Script: name.String(), Results: out.Results})
	}
	return a.print(nil, func(w io.Writer) { writeResults(w, out.Results) })
}
