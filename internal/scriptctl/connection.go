package scriptctl

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
	"github.com/scriptorium-dev/scriptorium/script"
)

const plaintextVariable = "SCRIPTORIUM_INSECURE_PLAINTEXT"

// traceVariable has the W3C trace context of the process that started this one.
const traceVariable = "TRACEPARENT"

// withTrace returns a context whose requests and calls are part of the trace in the environment.
func withTrace(ctx context.Context) context.Context {
	c, _ := tracecontext.Parse(os.Getenv(traceVariable))
	return tracecontext.With(ctx, c)
}

func (a *app) addConnectionFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	a.caller.AddFlags(flags, "")
	flags.BoolVar(&a.plain, security.PlaintextFlag, false, "connect to a registry at host:port without TLS")
	for _, file := range []string{"ca", "cert", "key", "token-file"} {
		must(root.MarkPersistentFlagFilename(file))
	}
}

// connection returns how the registry is connected to.
func (a *app) connection() ([]registryclient.Option, error) {
	caller := security.Caller{
		CA:        cmp.Or(a.caller.CA, os.Getenv("SCRIPTORIUM_CA")),
		Cert:      cmp.Or(a.caller.Cert, os.Getenv("SCRIPTORIUM_CERT")),
		Key:       cmp.Or(a.caller.Key, os.Getenv("SCRIPTORIUM_KEY")),
		TokenFile: a.caller.TokenFile,
		Token:     os.Getenv("SCRIPTORIUM_TOKEN"),
	}
	if caller.Token == "" {
		caller.TokenFile = cmp.Or(caller.TokenFile, os.Getenv("SCRIPTORIUM_TOKEN_FILE"))
	}
	plaintext := a.plain
	if text := os.Getenv(plaintextVariable); text != "" && !plaintext {
		allowed, err := strconv.ParseBool(text)
		if err != nil {
			return nil, script.Errorf(script.Invalid, plaintextVariable, "is %q; want true or false", text)
		}
		plaintext = allowed
	}
	if text := os.Getenv(traceVariable); text != "" {
		if _, ok := tracecontext.Parse(text); !ok {
			a.warn(fmt.Sprintf("%s is ignored: %.80q is no W3C traceparent", traceVariable, text))
		}
	}
	connection, err := caller.Open(a.registryTarget(), "", plaintext, tlsfiles.WarnOfOpen, a.warnings())
	if err != nil {
		return nil, err
	}
	options := []registryclient.Option{registryclient.WithTransportCredentials(connection.Transport)}
	if connection.PerCall != nil {
		options = append(options, registryclient.WithDialOptions(grpc.WithPerRPCCredentials(connection.PerCall)))
	}
	return options, nil
}

func (a *app) warnings() *slog.Logger { return slog.New(warnings{a.warn}) }

// warnings prints what is logged as a warning.
type warnings struct{ warn func(text string) }

// Enabled implements slog.Handler.
func (warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(attr slog.Attr) bool {
		text += fmt.Sprintf(" (%s: %s)", attr.Key, attr.Value)
		return true
	})
	w.warn(text)
	return nil
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }
