package browser_test

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	files "github.com/scriptorium-dev/scriptorium/console"
	"github.com/scriptorium-dev/scriptorium/internal/console"
	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// world is a registry with agents, and a console that people of the registry's socket can use.
type world struct {
	*localtest.World

	url  string
	code <-chan string // of the console that runs
	stop func()        // ends it
}

func start(t *testing.T, agents int, opts ...local.Option) *world {
	t.Helper()
	if !files.Built() {
		needs.Skip(t, "needs the files of the console: run `make console`")
	}
	w := &world{World: localtest.Start(t, agents, opts...)}
	w.serve(t, porttest.Address(t))
	return w
}

// serve runs a console at the address until the test ends, or restart is called.
func (w *world) serve(t *testing.T, listen string) {
	t.Helper()
	cmd := console.Command()
	out, in := io.Pipe()
	cmd.SetOut(in)
	cmd.SetErr(in)
	cmd.SetArgs([]string{"--registry", "unix:" + filepath.Join(w.Dir, "registry.sock"), "--listen", listen})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(err)
		ended <- err
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the console ended: %v", err)
		}
	})
	t.Cleanup(w.stop)
	codes, at := make(chan string, 8), make(chan string, 1)
	go read(out, codes, at)
	w.url, w.code = <-at, codes
	if w.url == "" {
		t.Fatal("the console did not start")
	}
}

// restart ends the console, and with it all sessions, and starts another at the same address.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.stop()
	at, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	w.serve(t, at.Host)
}

// read reads what the console prints: its address, and a code for each sign-in.
func read(from io.Reader, codes, url chan string) {
	defer close(url)
	defer close(codes)
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if _, code, ok := strings.Cut(lines.Text(), "with the code "); ok {
			codes <- code
		} else if _, at, ok := strings.Cut(lines.Text(), "console: http"); ok {
			url <- "http" + at
		}
	}
}

// open opens a tab of a person who has signed in, at the path.
func (w *world) open(t *testing.T, path string) *browser.Page {
	t.Helper()
	b := browser.Start(t)
	p := b.Open(t)
	w.signIn(p, path)
	return p
}

// signIn signs in on the way to the path.
func (w *world) signIn(p *browser.Page, path string) {
	p.Go(w.url + path)
	p.Wait("the page for signing in", "location.pathname === '/signin/'")
	p.Forgive() // the calls before
	p.See("The code that the console printed")
	p.Fill("The code that the console printed", <-w.code)
	p.Click("button", "Sign in")
	p.Wait("the page "+path, "location.pathname + location.search === '"+path+"'")
}
