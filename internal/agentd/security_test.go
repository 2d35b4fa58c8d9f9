package agentd_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestAChoiceThatIsMissing, or contradicts another, is refused and names the flag.
func TestAChoiceThatIsMissing(t *testing.T) {
	open := node.Security{InsecureUnsigned: true, InsecurePlaintext: true}
	token := filepath.Join(t.TempDir(), "open.token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*agentd.Config)
		flag   string
		says   string
	}{
		{"nothing is chosen", func(c *agentd.Config) { c.Security = node.Security{} }, "--trusted-key", "scriptctl keys public"},
		{"trusted and everybody", func(c *agentd.Config) { c.Security.TrustedKeys = []string{"x"} }, "--insecure-unsigned", "contradicts"},
		{"no such key", func(c *agentd.Config) {
			c.Security.InsecureUnsigned, c.Security.TrustedKeys = false, []string{"none.pem"}
		}, "--trusted-key", "none.pem"},
		{"plain NATS", func(c *agentd.Config) { c.Security.InsecurePlaintext = false }, "--nats-url", "tls://"},
		{"no such CA", func(c *agentd.Config) { c.Security.Registry = security.Caller{CA: "none.crt"} }, "--registry-ca", "none.crt"},
		{"no such token", func(c *agentd.Config) { c.Security.Registry = security.Caller{TokenFile: "none.token"} }, "--registry-token-file", "none.token"},
		{"token that others can read", func(c *agentd.Config) { c.Security.Registry = security.Caller{TokenFile: token} }, "--registry-token-file", token + ": has mode 0644"},
		{"password that others can read", func(c *agentd.Config) { c.Security.NATS = security.NATS{User: "x", PasswordFile: token} }, "--nats-password-file", "chmod 600 " + token},
		{"workers as root", func(c *agentd.Config) { c.Workers.Users = "0-100" }, "--worker-uids", "contains 0, which is root"},
		{"workers as nobody", func(c *agentd.Config) { c.Workers.Users = "60000-70000" }, "--worker-uids", "65534, which is nobody"},
		{"workers as one user", func(c *agentd.Config) { c.Workers.Users = "1000" }, "--worker-uids", "want FIRST-LAST"},
		{"negative memory for values", func(c *agentd.Config) { c.ValueCacheBytes = -1 }, "--value-cache-bytes", "negative"},
		{"certificate without its key", func(c *agentd.Config) { c.Security.Registry = security.Caller{Cert: "x.crt"} }, "--registry-ca", "go together"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := agentd.Config{
				Name: "n1", StateDir: t.TempDir(), SocketDir: t.TempDir(), Registry: "127.0.0.1:1", NATS: []string{"nats://127.0.0.1:1"},
				Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Security: open,
			}
			tt.change(&cfg)
			d, err := agentd.Start(cfg)
			if err == nil {
				t.Cleanup(func() { _ = d.Stop(t.Context()) })
			}
			if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), tt.flag) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %s first, and %q", err, tt.flag, tt.says)
			}
		})
	}
}
