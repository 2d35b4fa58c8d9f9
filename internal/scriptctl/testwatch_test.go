package scriptctl_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// TestWatchOfTests: the tests run again when a source file changes, also after an error, until the context ends.
func TestWatchOfTests(t *testing.T) {
	dir := testFolder(t, map[string]string{
		"route.yaml": testedManifest[:strings.Index(testedManifest, "  source: |")] + "  sourceFile: src/route.lua\n",
	})
	source := filepath.Join(dir, "src", "route.lua")
	if err := os.Mkdir(filepath.Dir(source), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("function handle(request) return {upstream = request.plan == 'gold' and 'fast' or 'up'} end")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: in, Err: in}, []string{"test", "--watch", dir})
		in.Close()
	}()
	seen := ""
	await := func(text string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(seen, text) {
			n, err := out.Read(buf)
			if err != nil {
				t.Fatalf("no %q in\n%s", text, seen)
			}
			seen += string(buf[:n])
		}
		_, seen, _ = strings.Cut(seen, text)
	}
	await("2 passed, 0 failed")
	await("waiting for changes")
	write("function handle(request) return {upstream = 'slow'} end")
	await("2 tests of 2 failed")
	await("waiting for changes")
	write("function handle(request) return {")
	await("error: ")
	await("waiting for changes")
	write("function handle(request) return {upstream = request.plan == 'gold' and 'fast' or 'up'}  end")
	await("2 passed, 0 failed")
	stop()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d", got)
	}
}
