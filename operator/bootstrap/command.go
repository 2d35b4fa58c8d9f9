package bootstrap

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
)

// Command returns the command that runs this.
func Command() *cobra.Command {
	var (
		opts         Options
		certificates bool
	)
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Make the Secrets that a fleet needs, where they are missing",
		Long: `bootstrap makes the keys, certificates, passwords and the access policy that a
fleet needs before its pods can start. It stores them as Secrets of one namespace.

bootstrap makes only missing Secrets, and does not change existing ones. The exception
are certificates that it made: it renews them when less than a third of their lifetime
is left, or when a name is missing. You can run it at any time, also concurrently.

bootstrap finds the API server like kubectl: with $KUBECONFIG or ~/.kube/config, and in
a pod with the pod's service account.

Every flag can be set by the environment variable behind it.`,
		Example: `  operator bootstrap --dry-run
  operator bootstrap --etcd-service= --nats-service=   # with an etcd and a NATS of one's own
  operator bootstrap --certificates=false              # with cert-manager`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
			if err != nil {
				return fmt.Errorf("find the API server: %w", err)
			}
			opts.NoCertificates = !certificates
			return do(cmd, config, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Namespace, "namespace", "scriptorium-system", "namespace of the Secrets and Services")
	flags.StringVar(&opts.DNSSuffix, "dns-suffix", "cluster.local", "domain of the cluster")
	flags.StringVar(&opts.RegistryService, "registry-service", "scriptorium-registry", "Service of the registry")
	flags.StringVar(&opts.EtcdService, "etcd-service", "scriptorium-etcd", "Service of etcd; when empty, nothing is made for etcd")
	flags.StringVar(&opts.NATSService, "nats-service", "scriptorium-nats", "Service of NATS; when empty, nothing is made for NATS")
	flags.BoolVar(&certificates, "certificates", true, "make certificates and CAs")
	flags.BoolVar(&opts.DryRun, "dry-run", false, "say what would be done, and have the API server check it, but change nothing")
	flagenv.Bind(cmd)
	return cmd
}

func do(cmd *cobra.Command, config *rest.Config, opts Options) error {
	for flag, value := range map[string]string{"--namespace": opts.Namespace, "--dns-suffix": opts.DNSSuffix, "--registry-service": opts.RegistryService} {
		if value == "" {
			return fmt.Errorf("%s is empty: it has to have a name", flag)
		}
	}
	config.QPS = -1 // these are two requests for each Secret: the pods that wait for them are not to wait for a bound, too
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	changes, err := Run(cmd.Context(), core.Secrets(opts.Namespace), opts)
	return errors.Join(write(cmd.OutOrStdout(), changes, opts), err)
}

func write(w io.Writer, changes []Change, opts Options) error {
	for _, c := range changes {
		line := fmt.Sprintf("%-8s secret/%s", c.Action, c.Secret)
		if c.Detail != "" {
			line += ": " + c.Detail
		}
		if opts.DryRun {
			line += " (dry run)"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if c.Secret == NATSTLS && c.Action == Renewed {
			_, err := fmt.Fprintf(w, "NATS reads its certificate when it starts: restart %s before the old one ends\n", opts.NATSService)
			return err
		}
	}
	return nil
}
