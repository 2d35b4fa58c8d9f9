package registryclient_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

var (
	route = script.Name{Tenant: "acme", Script: "route"}
	ada   = registryclient.Write{Author: "ada"}
)

func dial(t *testing.T, target string, opts ...registryclient.Option) *registryclient.Client {
	t.Helper()
	c, err := registryclient.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func publish(t *testing.T, c *registryclient.Client, name script.Name, source string) registryclient.Published {
	t.Helper()
	p, err := c.Publish(t.Context(), registryclient.PublishRequest{Name: name, Source: []byte(source), Write: ada})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTargets(t *testing.T) {
	for target, ok := range map[string]bool{
		"unix:a/b.sock": true, "unix:/run/b.sock": true, "localhost:7070": true, "[::1]:7070": true, ":7070": true,
		"": false, "unix:": false, "localhost": false, "/run/b.sock": false, "localhost:": false,
	} {
		c, err := registryclient.Dial(target)
		if (err == nil) != ok {
			t.Errorf("%q: %v", target, err)
		}
		if err == nil {
			c.Close()
		} else if script.KindOf(err) != script.Invalid {
			t.Errorf("%q: kind %s", target, script.KindOf(err))
		}
	}
}

// A socket's path is no URL.
func TestSocketPaths(t *testing.T) {
	for _, folder := range []string{"a#1", "a%20b", "a b", "a?b", "ü"} {
		dir, err := os.MkdirTemp("", folder)
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		target, stop := serve(dir, &fakeRegistry{})
		defer stop()
		publish(t, dial(t, target), route, "return 1")
	}
}

func TestErrorsKeepTheirPlace(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	_, err := c.Publish(t.Context(), registryclient.PublishRequest{Name: route, Source: []byte("broken"), Write: ada})
	e, ok := errors.AsType[*script.Error](err)
	if !ok || e.Kind != script.Script || e.Field != "source" || e.Line != 3 || e.Column != 7 {
		t.Errorf("got %+v", e)
	}
	if _, err = c.Get(t.Context(), route); script.KindOf(err) != script.NotFound {
		t.Errorf("got %v", err)
	}
	p := publish(t, c, route, "return 1")
	w := ada
	w.ExpectedRevision = p.Release.Revision + 1
	_, err = c.Publish(t.Context(), registryclient.PublishRequest{Name: route, Source: []byte("return 2"), Write: w})
	if script.KindOf(err) != script.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestListTurnsPages(t *testing.T) {
	f := &fakeRegistry{}
	c := dial(t, serveTest(t, f))
	const scripts = 5
	for i := range scripts {
		publish(t, c, script.Name{Tenant: "acme", Script: fmt.Sprint("s", i)}, "return 1")
	}
	var got []string
	for r, err := range c.List(t.Context(), "acme") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Name.Script)
	}
	if s := strings.Join(got, " "); s != "s0 s1 s2 s3 s4" {
		t.Errorf("got %s", s)
	}
	for range c.List(t.Context(), "acme") {
		break // asks for no more than the page that is read
	}
	if n := f.calls["List"]; n != 4 {
		t.Errorf("%d pages were asked for, want 3 + 1", n)
	}
}

func TestUnreachable(t *testing.T) {
	target := "unix:" + filepath.Join(t.TempDir(), "none.sock")
	c := dial(t, target)
	_, err := c.Get(t.Context(), route)
	if script.KindOf(err) != script.Unavailable {
		t.Fatalf("got %v", err)
	}
	want := "cannot reach the registry at " + target + " ("
	if s := err.Error(); !strings.HasPrefix(s, want) || !strings.HasSuffix(s, "no such file or directory): check that registryd runs there and that the address is right") {
		t.Errorf("got %s", s)
	}
	advised := dial(t, target, registryclient.WithAdvice("the address is from --registry"))
	if _, err := advised.Get(t.Context(), route); err == nil || !strings.HasSuffix(err.Error(), "): check that registryd runs there; the address is from --registry") {
		t.Errorf("got %v", err)
	}
	for _, err := range c.WatchStatus(t.Context(), route) {
		if script.KindOf(err) != script.Unavailable {
			t.Errorf("watch: got %v", err)
		}
	}
}

func TestDeadlines(t *testing.T) {
	f := &fakeRegistry{block: make(chan struct{})}
	t.Cleanup(func() { close(f.block) })
	target := serveTest(t, f)

	_, err := dial(t, target, registryclient.WithTimeout(20*time.Millisecond)).Get(t.Context(), route)
	if script.KindOf(err) != script.Unavailable || !strings.Contains(err.Error(), "did not answer within 20ms") {
		t.Errorf("default deadline: got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = dial(t, target).Get(ctx, route)
	if script.KindOf(err) != script.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, err = dial(t, target).Get(ctx, route)
	if script.KindOf(err) != script.Timeout || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

// TestWatchChanges: the first status is of all scripts, and the others are not.
func TestWatchChanges(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	var full []bool
	for change, err := range c.WatchChanges(t.Context(), route) {
		if err != nil {
			break
		}
		full = append(full, change.Full)
		if gone := slices.Equal(change.Gone, []script.Name{{Tenant: "acme", Script: "old"}}); gone == change.Full || len(change.Scripts) != 1 {
			t.Errorf("got %+v", change)
		}
	}
	if !slices.Equal(full, []bool{true, false, false}) {
		t.Errorf("full: %v", full)
	}
}

func TestWatchStatusEnds(t *testing.T) {
	c := dial(t, serveTest(t, &fakeRegistry{}))
	var active []int
	var last error
	for fleet, err := range c.WatchStatus(t.Context(), route) {
		if last = err; err == nil {
			active = append(active, fleet.Scripts[0].Active)
		}
	}
	if fmt.Sprint(active) != "[0 1 2]" || script.KindOf(last) != script.Unavailable {
		t.Errorf("got %v, then %v", active, last)
	}
}

// A registry that answers nonsense is not the caller's fault.
func TestMalformedAnswer(t *testing.T) {
	f := &fakeRegistry{releases: []*script.Release{{Name: route}}}
	_, err := dial(t, serveTest(t, f)).Get(t.Context(), route)
	if script.KindOf(err) != script.Internal {
		t.Errorf("got %v", err)
	}
}
