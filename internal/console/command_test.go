package console_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/console"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
)

// TestCommand: the command says where it is and how to sign in, and what operators look at is there.
func TestCommand(t *testing.T) {
	registry := startRegistry(t).RegistryTarget()
	admin := fmt.Sprintf("127.0.0.1:%d", porttest.Port(t))
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	cmd := console.Command()
	cmd.SetOut(w)
	cmd.SetArgs([]string{"--registry", registry, "--listen", "127.0.0.1:0", "--admin-address", admin, "--log-level", "error"})
	done := make(chan error, 1)
	go func() {
		defer w.Close()
		done <- cmd.ExecuteContext(ctx)
	}()
	lines := bufio.NewScanner(r)
	line := func(pattern string) string {
		t.Helper()
		if !lines.Scan() {
			t.Fatal(<-done)
		}
		found := regexp.MustCompile(pattern).FindStringSubmatch(lines.Text())
		if found == nil {
			t.Fatalf("%q is not as %s", lines.Text(), pattern)
		}
		return found[1]
	}
	code := line(`^console: sign in with the code ([A-Z2-7]{4}-[A-Z2-7]{4})$`)
	at := line(`^console: (http://127\.0\.0\.1:\d+)$`)
	go func() {
		for lines.Scan() { // the next code
		}
	}()
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/session", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(post)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatal(err, resp.Status)
	}
	_ = resp.Body.Close()
	for path, want := range map[string]string{"/readyz": `"ready":true`, "/metrics": "scriptorium_console_sessions 1"} {
		if _, text := get(t, http.DefaultClient, "http://"+admin+path); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the command ended with %v", err)
	}
}

// TestWrongFlags: an error names the flag.
func TestWrongFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--registry", "nowhere"}, "--registry"},
		{[]string{"--registry", "unix:x", "--listen", "0.0.0.0:0"}, "--tls-cert"},
		{[]string{"--registry", "unix:x", "--token-file", "none"}, "--token-file"},
		{[]string{"--registry", "unix:x", "--listen", "127.0.0.1:0", "--oidc-issuer", "https://sso.example", "--oidc-client-id", "x"}, "--url"},
	} {
		cmd := console.Command()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(io.Discard)
		cmd.SetArgs(tt.args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want an error about %s", tt.args, err, tt.want)
		}
	}
}
