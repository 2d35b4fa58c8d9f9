// Package prometheustest runs a Prometheus for tests, which scrapes what they say.
package prometheustest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// Server is a Prometheus, and what it scrapes four times a second.
type Server struct {
	URL string

	mu   sync.Mutex
	text string // of the metrics
}

const config = `
global: {scrape_interval: 250ms, scrape_timeout: 250ms}
scrape_configs:
- job_name: test
  static_configs: [{targets: [%s]}]
`

// Start runs one until the test ends. It skips the test if the program is not built.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, s.text)
	}))
	tb.Cleanup(target.Close)
	s.run(tb, fmt.Sprintf(config, strings.TrimPrefix(target.URL, "http://")))
	return s
}

// StartWith runs one with that configuration, which names what it scrapes. Paths of files are absolute.
func StartWith(tb testing.TB, config string) *Server {
	tb.Helper()
	s := &Server{}
	s.run(tb, config)
	return s
}

// run runs the program, and waits until it is ready.
func (s *Server) run(tb testing.TB, config string) {
	tb.Helper()
	program := needs.Program(tb, "prometheus")
	dir, address := tb.TempDir(), porttest.Address(tb)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		cancel()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it gets a signal to end
		if tb.Failed() {
			tb.Logf("Prometheus said:\n%s", &log)
		}
	})
	s.URL = "http://" + address
	s.await(tb, "it is ready", func() bool { return get(tb, s.URL+"/-/ready") != "" })
}

// Expose has Prometheus scrape this text, and waits until the query finds something, or nothing if
// found is false.
func (s *Server) Expose(tb testing.TB, text, query string, found bool) {
	tb.Helper()
	s.mu.Lock()
	s.text = text
	s.mu.Unlock()
	s.await(tb, text+" is scraped", func() bool {
		answer := get(tb, s.URL+"/api/v1/query?query="+url.QueryEscape(query))
		return strings.Contains(answer, `"status":"success"`) && strings.Contains(answer, `"result":[]`) == !found
	})
}

// get returns what is at the address; "" if there is nothing.
func get(tb testing.TB, address string) string {
	tb.Helper()
	resp, err := http.Get(address) //nolint:gosec,noctx // of the test
	if err != nil {
		return ""
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

func (s *Server) await(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-ticker.C:
		case <-deadline:
			tb.Fatalf("never: %s", what)
		}
	}
}
