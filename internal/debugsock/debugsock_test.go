package debugsock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/scriptorium-dev/scriptorium/internal/debugsock"
	"github.com/scriptorium-dev/scriptorium/script"
)

// lockedBuffer is a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// client speaks HTTP over the socket.
func client(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
}

func get(t *testing.T, path, url string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://debug"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(path).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

func serve(t *testing.T) (path string, log *lockedBuffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // a path that fits into an address
	if err != nil {
		t.Fatal(err)
	}
	path, log = filepath.Join(dir, "debug.sock"), &lockedBuffer{}
	s, err := (&debugsock.Options{Path: path}).Serve(slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket is there after Close")
		}
		_ = os.RemoveAll(dir)
	})
	return path, log
}

// TestProfiles: pprof's tools get what they ask for.
func TestProfiles(t *testing.T) {
	path, _ := serve(t)
	for _, url := range []string{"heap", "goroutine", "allocs", "threadcreate", "profile?seconds=1", "mutex?seconds=1", "block?seconds=1"} {
		code, body := get(t, path, "/debug/pprof/"+url)
		if _, err := profile.Parse(bytes.NewReader(body)); err != nil || code != http.StatusOK {
			t.Errorf("%s: %d, %v", url, code, err)
		}
	}
	if code, body := get(t, path, "/debug/pprof/"); code != http.StatusOK || !bytes.Contains(body, []byte("goroutine")) {
		t.Errorf("the index: %d %s", code, body)
	}
	if code, body := get(t, path, "/debug/pprof/goroutine?debug=2"); code != http.StatusOK || !bytes.Contains(body, []byte("TestProfiles")) {
		t.Errorf("goroutines: %d %s", code, body)
	}
	var vars map[string]any
	if code, body := get(t, path, "/debug/vars"); code != http.StatusOK || json.Unmarshal(body, &vars) != nil || vars["memstats"] == nil {
		t.Errorf("variables: %d %s", code, body)
	}
	if code, body := get(t, path, "/debug/pprof/mutex"); code != http.StatusBadRequest || !bytes.Contains(body, []byte("?seconds=10")) {
		t.Errorf("waits without a time: %d %s", code, body)
	}
	if code, _ := get(t, path, "/debug/pprof/profile?seconds=1000"); code != http.StatusBadRequest {
		t.Errorf("a profile that takes too long: %d", code)
	}
}

func TestPath(t *testing.T) {
	if s, err := (&debugsock.Options{}).Serve(slog.New(slog.DiscardHandler)); s != nil || err != nil || s.Close() != nil {
		t.Errorf("without a path: %v, %v", s, err)
	}
	path, _ := serve(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{path, file, strings.Repeat("x", 200)} {
		_, err := (&debugsock.Options{Path: taken}).Serve(slog.New(slog.DiscardHandler))
		if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), "--debug-socket") {
			t.Errorf("%s: %v", taken, err)
		}
	}
}
