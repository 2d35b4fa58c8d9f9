package scriptctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/kubeforward"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/proto/tracecontext"
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
	if a.byKubectl {
		flags.StringVarP(&a.kube.namespace, "namespace", "n", "", "the namespace of the registry (default "+kubeforward.DefaultNamespace+")")
		flags.StringVar(&a.kube.context, "context", "", "the context of the kubeconfig")
		flags.StringVar(&a.kube.kubeconfig, "kubeconfig", "", "the kubeconfig")
		must(root.MarkPersistentFlagFilename("kubeconfig"))
		return
	}
	flags.StringVar(&a.contextName, "context", "", "the context of the configuration (default $"+contextVariable+", else the current one)")
	flags.StringVar(&a.config, "config", "", "the configuration (default $"+configVariable+", else ~/.config/scriptorium/config.yaml)")
	must(root.MarkPersistentFlagFilename("config", "yaml", "yml"))
	flags.Var(&a.kube, "kube", "go through the Kubernetes API server, to the registry in this `NAMESPACE` (default "+kubeforward.DefaultNamespace+")")
	flags.Lookup("kube").NoOptDefVal = kubeforward.DefaultNamespace
	flags.StringVar(&a.kube.context, "kube-context", "", "the context of the kubeconfig; implies --kube")
	must(root.RegisterFlagCompletionFunc("context", a.completeContexts(0)))
}

// kubeFlags say which cluster the registry is in. As a flag they are --kube=NAMESPACE.
type kubeFlags struct {
	on                             bool
	namespace, context, kubeconfig string
}

// Set implements pflag.Value.
func (k *kubeFlags) Set(namespace string) error {
	if namespace == "" {
		return errors.New("wants a namespace, or no =")
	}
	k.on, k.namespace = true, namespace
	return nil
}

// String implements pflag.Value.
func (k *kubeFlags) String() string { return "" }

// Type implements pflag.Value.
func (k *kubeFlags) Type() string { return "string" }

// connection returns the registry's address, and how it is connected to.
func (a *app) connection() (address string, options []registryclient.Option, err error) {
	if text := os.Getenv(traceVariable); text != "" {
		if _, ok := tracecontext.Parse(text); !ok {
			a.warn(fmt.Sprintf("%s is ignored: %.80q is no W3C traceparent", traceVariable, text))
		}
	}
	s, err := a.settings()
	if err != nil {
		return "", nil, usage(err)
	}
	if s.kube != nil {
		return a.kubeConnection(s)
	}
	address = cmp.Or(s.registry.value, defaultRegistry)
	connection, err := s.callerOf().Open(address, "", s.plaintext, tlsfiles.WarnOfOpen, a.warnings())
	if err != nil {
		return "", nil, usage(s.named(err))
	}
	options = []registryclient.Option{registryclient.WithTransportCredentials(connection.Transport), registryclient.WithAdvice(a.registryOrigin())}
	if connection.PerCall != nil {
		options = append(options, registryclient.WithDialOptions(grpc.WithPerRPCCredentials(connection.PerCall)))
	}
	return address, options, nil
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
