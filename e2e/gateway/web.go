package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/script"
)

// webCallee is a page that is asked for at a gateway, whose script decides.
type webCallee struct {
	client *http.Client
	url    string
}

// newWebCallee returns the page of the last part of the name, at the gateway.
func newWebCallee(client *http.Client, gateway, name string) webCallee {
	return webCallee{client: client, url: strings.TrimSuffix(gateway, "/") + "/" + path.Base(name)}
}

// call returns what the client gets. An answer that no script and no application gives is an error.
func (w webCallee) call(ctx context.Context) (sight.State, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return sight.State{}, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return sight.State{}, script.Errorf(script.Unavailable, "", "ask the gateway: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return sight.State{}, script.Errorf(script.Unavailable, "", "read the gateway's answer: %w", err)
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		return sight.State{}, script.Errorf(script.Unavailable, "", "the gateway answers %s: %.200s", resp.Status, body)
	}
	return sight.State{Content: fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body)))}, nil
}

// backend is an application behind a gateway: it answers with its name, and the user in the request.
func backend(name string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(rw, "%s for %s", name, r.Header.Get("X-User"))
	})
}

// serveBackends serves the applications, each as name=address, until ctx is done or one fails.
func serveBackends(ctx context.Context, backends []string) error {
	failed := make(chan error, len(backends))
	for _, b := range backends {
		name, address, ok := strings.Cut(b, "=")
		if !ok {
			return fmt.Errorf("--backend is %q: want name=address", b)
		}
		server := &http.Server{Addr: address, Handler: backend(name), ReadHeaderTimeout: 5 * time.Second}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
