package scriptctl_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/scriptctl"
)

// TestEventsAreWatched over a restart of the registry: each line is one object, and none is there twice.
func TestEventsAreWatched(t *testing.T) {
	stack, dir := startStack(t, 1)
	p := person{t, dir}
	p.must("kv", "put", "term/first", "1")
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- scriptctl.Run(ctx, scriptctl.Streams{In: strings.NewReader(""), Out: w, Err: io.Discard},
			[]string{"events", "term", "--watch", "-o", "json", "--registry", "unix:" + filepath.Join(dir, "registry.sock")})
		w.Close()
	}()
	lines, ids := bufio.NewScanner(r), map[string]bool{}
	await := func(key string) {
		t.Helper()
		for lines.Scan() {
			var e struct{ ID, Type, Event, Key string }
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			if ids[e.ID] {
				t.Errorf("twice: %s", lines.Text())
			}
			ids[e.ID] = true
			if e.Key == key && e.Event == "put" && e.Type == "value" {
				return
			}
		}
		t.Fatalf("the events ended before %s", key)
	}
	await("first")
	p.must("kv", "put", "term/second", "2")
	await("second")
	if err := stack.StopRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	if err := stack.StartRegistry(ctx); err != nil {
		t.Fatal(err)
	}
	p.must("kv", "put", "term/third", "3")
	await("third")
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("interrupted, it exits with %d", got)
	}
	if len(ids) != 3 {
		t.Errorf("%d events, want 3", len(ids))
	}
}
