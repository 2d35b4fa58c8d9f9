package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials/local"

	assets "github.com/scriptorium-dev/scriptorium/console"
	"github.com/scriptorium-dev/scriptorium/internal/console"
)

// webConsole is the console of a run. A nil one is none.
type webConsole struct {
	*console.Server

	out   io.Writer
	mu    sync.Mutex
	first string // the code that the banner has
	shown bool
}

// startConsole starts the console, if there is to be one. If the default address is taken, such as by the dev of another
// folder, it takes a free port.
func startConsole(ctx context.Context, cfg Config, registry string) (*webConsole, error) {
	if cfg.Console == "" {
		return nil, nil
	}
	dial, err := console.Dialer(registry, local.NewCredentials())
	if err != nil {
		return nil, err
	}
	w := &webConsole{out: cfg.Out}
	c := console.Config{Dial: dial, Assets: assets.Assets(), Announce: w.announce, Clock: time.Now, Log: cfg.Log.With("part", "console")}
	w.Server, err = console.Start(ctx, console.Site{Listen: cfg.Console, Flag: "--console"}, c)
	if errors.Is(err, syscall.EADDRINUSE) && cfg.Console == DefaultConsole {
		w.Server, err = console.Start(ctx, console.Site{Listen: "127.0.0.1:0"}, c)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// announce prints a code. The banner has the first one.
func (w *webConsole) announce(code string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.shown {
		w.first = code
		return
	}
	fmt.Fprintf(w.out, "console: somebody signed in; the code for the next sign-in is %s\n", code)
}

// firstCode returns the code for the banner.
func (w *webConsole) firstCode() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = true
	return w.first
}

func (w *webConsole) stop(ctx context.Context) error {
	if w == nil {
		return nil
	}
	return w.Stop(ctx)
}
