package scriptctl_test

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9]*[A-Z]")

// TestTopIsDrawn on a small terminal, over a restart of the registry.
func TestTopIsDrawn(t *testing.T) {
	stack, dir := startStack(t, 1)
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- scriptctl.Run(ctx, scriptctl.Streams{
			In: strings.NewReader(""), Out: w, Err: io.Discard, OutTerminal: true, Size: func() (int, int) { return 20, 5 },
		}, []string{"top", "--period", "100ms", "--registry", "unix:" + filepath.Join(dir, "registry.sock")})
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	await := func(what string, is func(line string) bool) {
		t.Helper()
		for lines.Scan() {
			line := escapes.ReplaceAllString(lines.Text(), "")
			if utf8.RuneCountInString(line) > 20 {
				t.Errorf("%q is wider than the terminal", line)
			}
			if is(line) {
				return
			}
		}
		t.Fatalf("it ended before %s", what)
	}
	counted := func(line string) bool { return strings.Contains(line, " 1 of 1 ") }
	await("an agent counted", counted)
	if err := stack.StopRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	await("an error", func(line string) bool { return strings.Contains(line, "re") })
	if err := stack.StartRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	await("an agent counted again", counted)
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if got := <-code; got != 0 {
		t.Errorf("interrupted, it exits with %d", got)
	}
}
