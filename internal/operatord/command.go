package operatord

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/telemetry"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/version"
	"github.com/scriptorium-dev/scriptorium/operator/bootstrap"
	"github.com/scriptorium-dev/scriptorium/operator/controller"
	"github.com/scriptorium-dev/scriptorium/operator/webhook"
)

// What the operator asks of the API server in a second, at most: a thousand objects
// that come at once are three thousand writes and two thousand events. Priority and
// fairness of the API server come on top.
const (
	defaultQPS   = 300
	defaultBurst = 600
)

// Command returns the operator command.
func Command() *cobra.Command {
	var (
		cfg     Config
		options telemetry.Options
		hook    webhook.Config
		serve   bool
		qps     float32
		burst   int
	)
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Put the scripts of a Kubernetes cluster into a registry",
		Long: `operator watches the Scripts, LuaScripts and ScriptTenants of a Kubernetes cluster. It publishes
them to a registry, and deletes them there when they are deleted in the cluster. Their
status shows how many of the fleet's agents run them.

You can run several replicas: leader election selects one, and the others stand by. The
operator finds the API server like kubectl: with $KUBECONFIG or ~/.kube/config, and in a
pod with the pod's service account.

Every flag can be set by the environment variable behind it.`,
		Example: `  operator --registry dns:///scriptorium-registry:7070 --registry-ca ca.crt --registry-cert tls.crt --registry-key tls.key
  operator --registry unix:/run/scriptorium/registry.sock --leader-elect=false --webhook=false   # with a registry on this machine`,
		Args:    cobra.NoArgs,
		Version: version.String(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if serve {
				cfg.Webhook = &hook
			}
			process := telemetry.Process{Service: "scriptorium-operator", Metrics: ctrlmetrics.Registry}
			return options.Run(cmd.Context(), process, func(log *slog.Logger, traces *tracing.Tracing) error {
				kube, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
				if err != nil {
					return fmt.Errorf("find the API server: %w", err)
				}
				// What libraries log goes where the rest does.
				ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
				klog.SetSlogLogger(log)
				kube.QPS, kube.Burst = qps, burst
				kube.UserAgent = "scriptorium-operator/" + version.String()
				cfg.Kube, cfg.Log, cfg.Tracing = kube, log, traces
				return Run(cmd.Context(), cfg)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Registry, "registry", "", "the registry: host:port, dns:///host:port for all its replicas, or unix:PATH")
	cfg.Caller.AddFlags(flags, "registry-")
	flags.BoolVar(&cfg.InsecurePlaintext, security.PlaintextFlag, false, "connect to a registry at host:port without TLS")
	security.AddFileModes(flags, &cfg.InsecureFileModes)
	flags.StringVar(&cfg.AdminAddress, "admin-address", "", "host:port for /healthz, /readyz and /metrics; none when empty")
	flags.BoolVar(&cfg.LeaderElection, "leader-elect", true, "elect a leader among several replicas")
	flags.StringVar(&cfg.Namespace, "namespace", "", "namespace of the leader election lease and of the webhook's certificate; the pod's namespace when empty")
	flags.IntVar(&cfg.Concurrency, "concurrency", controller.DefaultConcurrency, "objects of each kind that the operator reconciles at once")
	flags.DurationVar(&cfg.DeleteWait, "delete-wait", 10*time.Minute, "time that the removal of a Script, LuaScript or ScriptTenant waits for the registry. After it, the script or settings stay in the registry. 0 waits forever")
	flags.BoolVar(&serve, "webhook", true, "serve the admission webhook, which rejects faulty scripts")
	flags.IntVar(&hook.Port, "webhook-port", webhook.DefaultPort, "port of the webhook")
	flags.StringVar(&hook.CertDir, "webhook-cert-dir", "", "folder with the webhook's tls.crt and tls.key, for example from cert-manager. When empty, the operator makes the certificate")
	flags.Float32Var(&qps, "kube-qps", defaultQPS, "requests to the API server in a second, of each kind; -1 for no bound")
	flags.IntVar(&burst, "kube-burst", defaultBurst, "requests to the API server at once")
	cfg.Debug.AddFlags(flags)
	options.AddFlags(flags)
	flagenv.Bind(cmd)
	cmd.SetVersionTemplate(fmt.Sprintf("%s {{.Version}} %s\n", cmd.Name(), runtime.Version()))
	cmd.AddCommand(bootstrap.Command())
	return cmd
}
