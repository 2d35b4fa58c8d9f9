// Command gateway stands for a gateway in the end-to-end tests. It calls scripts on
// a socket of its node's agent, or pages of a gateway there, all the time, one call after the other with a short
// pause, watches a file, such as that of a ConfigMap volume, and tells over HTTP what
// it saw and when: see package sight.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

type options struct {
	node     string
	listen   string
	protocol string
	socket   string
	scripts  []string
	callers  int
	interval time.Duration
	file     string
	url      string
	backends []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	cmd := &cobra.Command{
		Use:           "gateway",
		Short:         "Call scripts and watch a file, and tell what was seen",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "name of the node that the gateway reports")
	flags.StringVar(&o.listen, "listen", ":8090", "address to tell on, over HTTP")
	flags.StringVar(&o.protocol, "protocol", "grpc", "to call by: grpc, which tells the version of answers, resp, which costs less, or http, which asks --url for a page of each --call")
	flags.StringVar(&o.socket, "socket", "", "the agent's socket; that of the protocol in /run/scriptorium if empty")
	flags.StringArrayVar(&o.scripts, "call", nil, "a script to call, as tenant/name; repeatable")
	flags.IntVar(&o.callers, "callers", 1, "callers of each script at a time; the first one says what it saw, all are counted")
	flags.DurationVar(&o.interval, "interval", 2*time.Millisecond, "pause of a caller between two calls")
	flags.StringVar(&o.url, "url", "http://127.0.0.1:8080", "address of the gateway, for --protocol http")
	flags.StringArrayVar(&o.backends, "backend", nil, "an application for the gateway, as name=address; repeatable")
	flags.StringVar(&o.file, "file", "", "a file to watch; none if empty")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	seen := sight.NewLog(o.node)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	conn, err := connect(o)
	if err != nil {
		return err
	}
	defer conn.close() // so that no caller waits for an answer any more
	for _, name := range o.scripts {
		for i := range o.callers {
			c := caller{callee: conn.callee(name), script: name, interval: o.interval, seen: seen, first: i == 0}
			running.Go(func() { c.run(ctx) })
		}
	}
	if len(o.backends) > 0 {
		running.Go(func() { cancel(serveBackends(ctx, o.backends)) })
	}
	if o.file != "" {
		running.Go(func() { cancel(watch(ctx, o.file, seen)) })
	}
	return serve(ctx, cancel, o.listen, seen)
}

func serve(ctx context.Context, cancel context.CancelCauseFunc, address string, seen *sight.Log) error {
	mux := http.NewServeMux()
	mux.Handle("GET /sights", seen)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.ListenAndServe()
	cancel(err)
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
