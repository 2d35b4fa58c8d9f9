package fleet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

const patience = 5 * time.Minute // bounds the whole test; nothing is measured by it

// session is a reader's shell: variables, functions and the folder last from one command
// to the next.
type session struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Scanner
	change *strings.Replacer // from the page's words to those of this test
}

// startSession starts a shell in the folder, with more variables.
func startSession(t *testing.T, dir string, change *strings.Replacer, variables ...string) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	shell := exec.CommandContext(ctx, "sh", "-e")
	shell.Dir, shell.Env = dir, append(os.Environ(), variables...)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that `kill 0` ends the shell and what it started
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout := pipe(t)
	// Every process that the shell starts inherits this pipe: its end tells that all of
	// them are gone.
	gone, inherited := pipe(t)
	// This pipe ends with the test, also when the test is killed.
	watched, test := pipe(t)
	shell.Stdout, shell.Stderr, shell.ExtraFiles = stdout, stdout, []*os.File{inherited, watched}
	shell.Cancel = test.Close
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	_, _, _ = stdout.Close(), inherited.Close(), watched.Close()
	t.Cleanup(func() {
		cancel()
		_ = shell.Wait()
		_, _ = io.Copy(io.Discard, gone)
	})
	s := &session{t: t, in: in, out: bufio.NewScanner(out), change: change}
	s.must("{ cat <&4; kill -KILL 0; } >/dev/null 2>&1 &")
	return s
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// of returns the session for a subtest.
func (s *session) of(t *testing.T) *session {
	t.Helper()
	sub := *s
	sub.t = t
	return &sub
}

const mark = "@@ exit code "

// run runs the commands until one fails, and returns what they print and the exit code.
// When a command fails the shell ends, as `sh -e` does.
func (s *session) run(commands string) (string, int) {
	s.t.Helper()
	return s.send(fmt.Sprintf("{ %s\n} </dev/null\necho; echo %q0\n", s.change.Replace(commands), mark))
}

// try runs one command that may fail.
func (s *session) try(command string) (string, int) {
	s.t.Helper()
	return s.send(fmt.Sprintf("code=0; { %s\n} </dev/null || code=$?\necho; echo %q$code\n", s.change.Replace(command), mark))
}

func (s *session) send(script string) (string, int) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, script); err != nil {
		s.t.Fatalf("the shell has ended: %v", err)
	}
	var said strings.Builder
	for s.out.Scan() {
		if code, is := strings.CutPrefix(s.out.Text(), mark); is {
			number, err := strconv.Atoi(code)
			if err != nil {
				s.t.Fatal(err)
			}
			return said.String(), number
		}
		fmt.Fprintln(&said, s.out.Text())
	}
	return said.String(), -1
}

// must runs commands that succeed.
func (s *session) must(commands string) string {
	s.t.Helper()
	start := time.Now()
	said, code := s.run(commands)
	s.t.Logf("%s\nexit code %d after %v:\n%s", strings.TrimSpace(commands), code, time.Since(start).Round(time.Millisecond), said)
	if code != 0 {
		s.t.Fatal("these commands of the page fail")
	}
	return said
}

// refused runs a command that fails, and says so with the words.
func (s *session) refused(command, words string) {
	s.t.Helper()
	if said, code := s.try(command); code == 0 || !strings.Contains(said, words) {
		s.t.Errorf("%s\nexit code %d, want another than 0, and %q in:\n%s", command, code, words, said)
	}
}

func (s *session) read(file string) string {
	s.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// follow runs the section's commands.
func (s *session) follow(file, section string) {
	s.t.Helper()
	text, err := page.ReadSection(file, section)
	if err != nil {
		s.t.Fatal(err)
	}
	s.steps(text)
}

// steps runs the blocks of the language sh, then those of the language console, which
// show what their commands print.
func (s *session) steps(text string) {
	s.t.Helper()
	blocks := page.Blocks(text, "sh")
	transcript := page.Transcript(text)
	if len(blocks)+len(transcript) == 0 {
		s.t.Fatalf("no commands in:\n%s", text)
	}
	for _, block := range blocks {
		s.must(block)
	}
	for _, command := range transcript {
		s.shown(command)
	}
}

// shown runs a command of a transcript, and wants the lines that the page shows.
func (s *session) shown(command page.Command) {
	s.t.Helper()
	said := s.must(command.Line)
	for line := range strings.Lines(command.Prints) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(said, line) {
			s.t.Errorf("%s\ndoes not print %q, but:\n%s", command.Line, line, said)
		}
	}
}
