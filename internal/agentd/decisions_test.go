package agentd_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/agentd"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/node"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestDecisionLogsThatAreWrong are refused before the agent starts, with what to do about it.
func TestDecisionLogsThatAreWrong(t *testing.T) {
	ca := certtest.NewCA(t)
	open := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(open, []byte("secret"), 0o644); err != nil { //nolint:gosec // others can read it: that is the case
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"opa":                                      "is no address of a collector",
		"opa:collector:8181":                       "is no address of a collector",
		"opa:http://collector":                     "is not encrypted: write https://, or accept it with --insecure-plaintext",
		"opa:http://collector?ca=" + ca.File:       "names certificates for a URL without TLS: write https://",
		"opa:https://collector?ca=none.pem":        "none.pem",
		"opa:https://collector?cert=" + ca.File:    "the options ca, cert and key",
		"opa:https://collector?token-file=" + open: "the option token-file: ",
		"opa:https://collector?upload-size=1":      "the option upload-size is 1, want at least 1024 bytes",
		"opa:https://collector?gzip=true":          `the option "gzip" is unknown: a opa has `,
		"opa:https://user:pw@collector":            "without user, query and fragment",
		"otlp:https://collector":                   "set OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
		"otlp":                                     "http://localhost:4318 is not encrypted: name one with https:// in OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
		"otlp?x=1":                                 `the option "x" is unknown`,
		"nats:nats://other":                        "the servers are those of --nats-url",
		"nats?jetstream=yes":                       `the option jetstream is "yes", want true or false`,
		"nats;nats?jetstream=true":                 `"nats?jetstream=true" is there twice`,
		"kafka:broker":                             "begins with no kind of sink: want file, nats, opa, otlp, stdout",
	} {
		t.Run(text, func(t *testing.T) {
			dir := t.TempDir()
			_, err := agentd.Start(agentd.Config{
				Name: "n1", StateDir: dir, SocketDir: filepath.Join(dir, "sockets"), Registry: "unix:" + filepath.Join(dir, "registry.sock"), NATS: []string{"nats://nats.internal:4222"},
				SubjectPrefix: "scriptorium", Decisions: node.Decisions{Log: []string{text}},
				Security: node.Security{InsecureUnsigned: true, NATS: security.NATS{CA: ca.File}}, Log: slog.New(slog.DiscardHandler),
			})
			if script.KindOf(err) != script.Invalid || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
