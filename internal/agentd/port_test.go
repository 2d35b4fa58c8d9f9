package agentd_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/script"
)

func config(t *testing.T, log io.Writer) agentd.Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentd") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return agentd.Config{
		Name: "n1", StateDir: filepath.Join(dir, "state"), SocketDir: dir, Registry: "127.0.0.1:1", NATS: []string{"nats://127.0.0.1:1"},
		Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: prometheus.NewRegistry(), Security: node.Security{InsecureUnsigned: true, InsecurePlaintext: true},
	}
}

func callersFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "callers.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func byToken(token string) string {
	return fmt.Sprintf("callers: [{name: traefik, tokens: ['sha256:%x'], tenants: [acme]}]\n", sha256.Sum256([]byte(token)))
}

// TestPortsThatAreRefused: a port that anybody could use, or whose callers send tokens for all to read, does not open.
func TestPortsThatAreRefused(t *testing.T) {
	good := callersFile(t, byToken("a-token-of-this-test"))
	named := callersFile(t, "callers: [{name: x, certificates: [{commonName: x}], tenants: [acme]}]\n")
	changeable := callersFile(t, byToken("a-token-of-this-test"))
	if err := os.Chmod(changeable, 0o666); err != nil {
		t.Fatal(err)
	}
	pair := certtest.NewCA(t).Issue("own", certtest.Leaf{})
	for _, tt := range []struct {
		name       string
		port       agentd.Port
		flag, says string
	}{
		{"no callers", agentd.Port{Listen: "127.0.0.1:0"}, "--http-callers", "is required"},
		{"no callers, with TLS", agentd.Port{Listen: "127.0.0.1:0", Cert: pair.Cert, Key: pair.Key}, "--http-callers", "is required"},
		{"all addresses", agentd.Port{Listen: ":0", Callers: good}, "--http-listen", "set --http-cert and --http-key"},
		{"0.0.0.0", agentd.Port{Listen: "0.0.0.0:0", Callers: good}, "--http-listen", "not an address of this machine alone"},
		{"[::]", agentd.Port{Listen: "[::]:0", Callers: good}, "--http-listen", "not an address of this machine alone"},
		{"another address", agentd.Port{Listen: "192.0.2.1:0", Callers: good}, "--http-listen", "not an address of this machine alone"},
		{"an address in another form", agentd.Port{Listen: "[::ffff:192.0.2.1]:0", Callers: good}, "--http-listen", "not an address of this machine alone"},
		{"no address", agentd.Port{Listen: "127.0.0.1", Callers: good}, "--http-listen", "missing port"},
		{"a key without its certificate", agentd.Port{Listen: "127.0.0.1:0", Callers: good, Key: pair.Key}, "--http-cert", "go together"},
		{"a CA without TLS", agentd.Port{Listen: "127.0.0.1:0", Callers: good, ClientCA: pair.Cert}, "--http-client-ca", "needs TLS"},
		{"certificates that nothing vouches for", agentd.Port{Listen: "127.0.0.1:0", Callers: named, Cert: pair.Cert, Key: pair.Key}, "--http-callers", "set --http-client-ca"},
		{"callers that others can change", agentd.Port{Listen: "127.0.0.1:0", Callers: changeable}, "--http-callers", "chmod go-w " + changeable},
		{"no such file", agentd.Port{Listen: "127.0.0.1:0", Callers: "none.yaml"}, "--http-callers", "none.yaml"},
		{"callers and no port", agentd.Port{Callers: good}, "--http-callers", "set that too"},
	} {
		cfg := config(t, io.Discard)
		cfg.Port = tt.port
		d, err := agentd.Start(cfg)
		if err == nil {
			_ = d.Stop(t.Context())
		}
		if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), tt.flag) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %s first, and %q", tt.name, err, tt.flag, tt.says)
		}
	}
}

// TestTenantSocketsThatAreRefused before anything is served.
func TestTenantSocketsThatAreRefused(t *testing.T) {
	many := map[string]int{}
	for i := range 257 {
		many[fmt.Sprintf("t%d", i)] = os.Getgid()
	}
	for says, groups := range map[string]map[string]int{
		"257 tenants":              many,
		"has the group -1":         {"acme": -1},
		"has the group 4294967295": {"acme": 4294967295},
		"tenant":                   {"../acme": os.Getgid()},
	} {
		cfg := config(t, io.Discard)
		cfg.TenantSockets = groups
		d, err := agentd.Start(cfg)
		if err == nil {
			_ = d.Stop(t.Context())
		}
		if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), "--tenant-sockets") || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want --tenant-sockets and %q", err, says)
		}
	}
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) has(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.String(), text)
}

// TestAllowingEverybodyIsLogged, and only that.
func TestAllowingEverybodyIsLogged(t *testing.T) {
	for allow, want := range map[string]bool{"*": true, "uid:101=acme;*": true, "uid:101=*": false, "": false} {
		var log lockedBuffer
		cfg := config(t, &log)
		if allow != "" {
			cfg.Allow = []string{allow}
		}
		d, err := agentd.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := log.has("level=WARN msg=\"every caller that can open a socket may use every tenant"); got != want {
			t.Errorf("--allow %q: logged: %t", allow, got)
		}
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPort: it shows what http.sock does, to callers whom the file names, as it is now. A file that cannot be used
// changes nothing.
func TestPort(t *testing.T) {
	var log lockedBuffer
	cfg := config(t, &log)
	address := porttest.Address(t)
	file := callersFile(t, byToken("the-first-token-of-all"))
	cfg.Port = agentd.Port{Listen: address, Callers: file}
	d, err := agentd.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop(t.Context())
	status := func(token string) int {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
		req.Header.Set("Scriptorium-Token", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if has := strings.Contains(string(body), "scriptorium_agent_connections"); has != (resp.StatusCode == http.StatusOK) {
			t.Errorf("%d shows %s", resp.StatusCode, body)
		}
		return resp.StatusCode
	}
	first, second := status("the-first-token-of-all"), status("the-second-token-of-all")
	if first != 200 || second != 401 {
		t.Fatalf("%d and %d", first, second)
	}
	eventually := func(what string, so func() bool) {
		t.Helper()
		tick, late := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
		defer tick.Stop()
		for !so() {
			select {
			case <-tick.C:
			case <-late:
				t.Fatal(what)
			}
		}
	}
	if err := os.WriteFile(file, []byte("callers: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually("the log does not name the file that cannot be used", func() bool { return log.has("the old ones stay") })
	if status("the-first-token-of-all") != 200 {
		t.Error("a file that cannot be used takes a caller's grants")
	}
	if err := os.WriteFile(file, []byte(byToken("the-second-token-of-all")), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually("the second token is not known", func() bool { return status("the-second-token-of-all") == 200 })
	if status("the-first-token-of-all") != 401 {
		t.Error("a token that the file does not name any more is taken")
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(byToken("the-third-token-of-all")), 0o666); err != nil {
		t.Fatal(err)
	}
	eventually("the log does not say that others can change the file", func() bool { return log.has("other users can change it") })
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually("a file that others cannot change any more is not read", func() bool { return status("the-third-token-of-all") == 200 })
	if status("the-second-token-of-all") != 401 {
		t.Error("a caller who was removed stays")
	}
}
