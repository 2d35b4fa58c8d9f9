package registryd_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/obs/obstest"
	"github.com/scriptorium-dev/scriptorium/internal/registryd"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	registryv1 "github.com/scriptorium-dev/scriptorium/proto/registry/v1"
	"github.com/scriptorium-dev/scriptorium/proto/seal"
	"github.com/scriptorium-dev/scriptorium/proto/wire"
	"github.com/scriptorium-dev/scriptorium/script"
)

// file makes one in a folder of the test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func signingKey(t *testing.T) string {
	t.Helper()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := seal.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "signing.key", string(text))
}

// TestAChoiceThatIsMissing, or contradicts another, is refused and names the flag.
func TestAChoiceThatIsMissing(t *testing.T) {
	ca := certtest.NewCA(t)
	own := ca.Issue("registry", certtest.Leaf{})
	good := file(t, "policy.yaml", "subjects: [{name: a, uids: [1], grants: [{roles: [read], tenants: [a]}]}]")
	for _, tt := range []struct {
		name   string
		change func(*registryd.Config)
		flag   string
		says   string
	}{
		{"nothing is chosen", func(c *registryd.Config) { c.Security = registryd.Security{} }, "--signing-key", "scriptctl keys generate"},
		{"signed and not", func(c *registryd.Config) { c.Security.SigningKey = signingKey(t) }, "--insecure-unsigned", "contradicts"},
		{"no such key", func(c *registryd.Config) {
			c.Security.SigningKey, c.Security.InsecureUnsigned = "none.key", false
		}, "--signing-key", "none.key"},
		{"a policy and none", func(c *registryd.Config) { c.Security.AccessPolicy = good }, "--insecure-anonymous", "contradicts"},
		{"no policy", func(c *registryd.Config) { c.Security.InsecureAnonymous = false }, "--access-policy", "127.0.0.1:0"},
		{"a bad policy", func(c *registryd.Config) {
			c.Security.InsecureAnonymous, c.Security.AccessPolicy = false, file(t, "p.yaml", "subjects: []")
		}, "--access-policy", "p.yaml:1: subjects"},
		{"a console without a policy", func(c *registryd.Config) { c.Console.Listen = "127.0.0.1:0" }, "--console", "--access-policy"},
		{"plain listener", func(c *registryd.Config) { c.Security.InsecurePlaintext = false }, "--listen", "--tls-cert"},
		{"client CA without TLS", func(c *registryd.Config) { c.Security.TLSClientCA = ca.File }, "--tls-client-ca", "--tls-cert"},
		{"certificate without its key", func(c *registryd.Config) { c.Security.TLSCert = own.Cert }, "--tls-cert", "go together"},
		{"plain etcd", func(c *registryd.Config) {
			c.Security.InsecurePlaintext, c.Security.TLSCert, c.Security.TLSKey = false, own.Cert, own.Key
		}, "--etcd-endpoints", "https://"},
		{"plain NATS", func(c *registryd.Config) {
			c.Security.InsecurePlaintext, c.Security.TLSCert, c.Security.TLSKey = false, own.Cert, own.Key
			c.EtcdEndpoints = []string{"https://127.0.0.1:1"}
		}, "--nats-url", "tls://"},
		{"certificates for a plain etcd", func(c *registryd.Config) { c.Security.EtcdCA = ca.File }, "--etcd-endpoints", "https://"},
		{"some of etcd", func(c *registryd.Config) {
			c.EtcdEndpoints = []string{"https://127.0.0.1:1", "http://127.0.0.1:1"}
		}, "--etcd-endpoints", "partly"},
		{"user of etcd without a password", func(c *registryd.Config) { c.Security.EtcdUser = "x" }, "--etcd-user", "--etcd-password-file"},
		{"user of NATS without a password", func(c *registryd.Config) { c.Security.NATS = security.NATS{User: "x"} }, "--nats-user", "--nats-password-file"},
		{"two ways to NATS", func(c *registryd.Config) { c.Security.NATS = security.NATS{User: "x", Creds: "y"} }, "--nats-creds", "--nats-user"},
		{"no such password", func(c *registryd.Config) {
			c.Security.NATS = security.NATS{User: "x", PasswordFile: "none.password"}
		}, "--nats-password-file", "none.password"},
		{"no such CA of NATS", func(c *registryd.Config) { c.Security.NATS = security.NATS{CA: "none.crt"} }, "--nats-ca", "none.crt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(t, "nats://127.0.0.1:1")
			tt.change(&cfg)
			d, err := registryd.Start(t.Context(), cfg)
			if err == nil {
				stop(t, d)
			}
			if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), tt.flag) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %s first, and %q", err, tt.flag, tt.says)
			}
		})
	}
}

// TestOpenFileModes: a secret that other users can read is refused, and the error names the
// flag and the file.
func TestOpenFileModes(t *testing.T) {
	own := certtest.NewCA(t).Issue("registry", certtest.Leaf{})
	for _, tt := range []struct {
		flag   string
		path   string
		change func(c *registryd.Security, path string)
	}{
		{"--signing-key", signingKey(t), func(c *registryd.Security, path string) { c.InsecureUnsigned, c.SigningKey = false, path }},
		{"--tls-cert", own.Key, func(c *registryd.Security, path string) { c.TLSCert, c.TLSKey = own.Cert, path }},
		{"--etcd-password-file", file(t, "etcd.password", "x"), func(c *registryd.Security, path string) { c.EtcdUser, c.EtcdPasswordFile = "x", path }},
		{"--nats-password-file", file(t, "nats.password", "x"), func(c *registryd.Security, path string) {
			c.NATS = security.NATS{User: "x", PasswordFile: path}
		}},
		{"--nats-creds", file(t, "nats.creds", "x"), func(c *registryd.Security, path string) { c.NATS = security.NATS{Creds: path} }},
	} {
		t.Run(tt.flag, func(t *testing.T) {
			if err := os.Chmod(tt.path, 0o644); err != nil {
				t.Fatal(err)
			}
			cfg := config(t, "nats://127.0.0.1:1")
			tt.change(&cfg.Security, tt.path)
			d, err := registryd.Start(t.Context(), cfg)
			if err == nil {
				stop(t, d)
			}
			if script.KindOf(err) != script.Invalid || !strings.HasPrefix(err.Error(), tt.flag) || !strings.Contains(err.Error(), tt.path+": has mode 0644") {
				t.Errorf("%v, want %s and the mode of %s", err, tt.flag, tt.path)
			}
		})
	}
}

// TestOpenFileModesAccepted: the registry starts with the flag, and logs the file.
func TestOpenFileModesAccepted(t *testing.T) {
	var log obstest.Output
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Security.InsecureUnsigned, cfg.Security.SigningKey, cfg.Security.InsecureFileModes = false, signingKey(t), true
	if err := os.Chmod(cfg.Security.SigningKey, 0o666); err != nil {
		t.Fatal(err)
	}
	d, err := registryd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, d)
	if want := "file=" + cfg.Security.SigningKey + " mode=0666"; strings.Count(log.String(), want) != 1 {
		t.Errorf("the log does not say once: %s\n%s", want, log.String())
	}
}

// TestASocketNeedsNoPolicy, and no certificates.
func TestASocketNeedsNoPolicy(t *testing.T) {
	var log bytes.Buffer
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Listen, cfg.Log, cfg.Metrics = cfg.Listen[:1], slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})), prometheus.NewRegistry()
	cfg.Security = registryd.Security{SigningKey: signingKey(t), InsecurePlaintext: true}
	d, err := registryd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	dial(t, cfg.Listen[0]).publish(t, "route", "return 1")
	stop(t, d)
	for _, line := range []string{"whoever may open a Unix socket of the registry may do everything", "etcd is not encrypted", "NATS is not encrypted"} {
		if strings.Count(log.String(), line) != 1 {
			t.Errorf("the log does not say once: %s\n%s", line, &log)
		}
	}
}

// TestTenantKeys: the registry refuses what agents with the same file would not run.
func TestTenantKeys(t *testing.T) {
	cfg := config(t, startNATS(t, 0).URL())
	cfg.Security.TenantKeys = file(t, "tenant-keys.yaml", "publishers: [{tenants: [acme], "+
		"keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl]}]")
	_, c := start(t, cfg)
	_, err := c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "acme", Author: "ann", Name: "route", Source: []byte("return 1")})
	if e := wire.FromStatus(err); script.KindOf(e) != script.Denied || !strings.Contains(e.Error(), "is not signed, as tenant acme requires") {
		t.Errorf("unsigned: %v", e)
	}
	if _, err := c.Publish(t.Context(), &registryv1.PublishRequest{Tenant: "shop", Author: "ann", Name: "route", Source: []byte("return 1")}); err != nil {
		t.Errorf("of a tenant that requires none: %v", err)
	}
}
