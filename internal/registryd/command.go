package registryd

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/telemetry"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/version"
)

// Command returns the registryd command.
func Command() *cobra.Command { return CommandWith(Config{}) }

// CommandWith is Command with what has no flag, such as the clock of a test.
func CommandWith(cfg Config) *cobra.Command {
	var options telemetry.Options
	cmd := &cobra.Command{
		Use:   "registryd",
		Short: "Keep scripts in etcd and tell the fleet of every change",
		Long: `registryd serves the registry's gRPC API. It checks and stores scripts, sends
changes to the agents over NATS, and reports which agent runs which version.

registryd signs all messages to agents with --signing-key. --access-policy grants
roles to callers. registryd identifies a caller by a client certificate
(--tls-client-ca), a token, or the uid on a Unix socket. It reads certificates, the
policy and the gates again when their files change. Each insecure setting needs a flag that
begins with --insecure, and registryd logs it.

--gates names the systems that may decide whether a step of a rollout passes.
--artifact-registries names the OCI registries that registryd fetches WebAssembly modules
and Rego bundles from when a publish names one (artifact: oci://…). Nobody else can have
registryd call an address.

--console serves the console, a web application, to people whom the access policy knows.
It uses TLS unless the address is loopback, for a proxy on the same machine.

registryd serves the fleet that somebody founded at its etcd prefix with
'registryd init'. Without a fleet it refuses all calls and says so; it looks for one
every second.

registryd needs etcd. Without NATS it is degraded, and agents poll. SIGTERM drains:
registryd finishes the requests in flight first.

Every flag can be set by the environment variable behind it.`,
		Example: `  registryd --signing-key signing.key --access-policy policy.yaml --listen :7070 \
      --tls-cert tls.crt --tls-key tls.key --tls-client-ca ca.crt \
      --etcd-endpoints https://etcd-0:2379,https://etcd-1:2379 --etcd-ca etcd-ca.crt --etcd-cert etcd.crt --etcd-key etcd.key \
      --nats-url tls://nats:4222 --nats-ca ca.crt --nats-user registry --nats-password-file nats-password
  registryd --signing-key signing.key --listen unix:/run/scriptorium/registry.sock --insecure-plaintext   # all on one machine`,
		Args:    cobra.NoArgs,
		Version: version.String(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Metrics = obs.NewMetrics()
			process := telemetry.Process{Service: "scriptorium-registry", Metrics: cfg.Metrics}
			return options.Run(cmd.Context(), process, func(log *slog.Logger, traces *tracing.Tracing) error {
				cfg.Log, cfg.Tracing = log, traces
				return Run(cmd.Context(), cfg)
			})
		},
	}
	flags := cmd.Flags()
	cfg.addEtcdFlags(flags)
	flags.StringVar(&cfg.Fleet, "fleet", "", "id of the only fleet to serve; when empty, the one that etcd has at the start")
	flags.StringSliceVar(&cfg.NATS, "nats-url", []string{"nats://127.0.0.1:4222"}, "servers of one NATS cluster")
	flags.StringVar(&cfg.SubjectPrefix, "subject-prefix", "scriptorium", "prefix of the NATS subjects; the same as the agents'")
	flags.StringSliceVar(&cfg.Listen, "listen", []string{"127.0.0.1:7070"}, "where gRPC is served: host:port or unix:PATH")
	flags.StringVar(&cfg.AdminAddress, "admin-address", "", "host:port for /healthz, /readyz and /metrics; none when empty")
	flags.DurationVar(&cfg.DrainTimeout, "drain-timeout", 10*time.Second, "time to finish requests in at SIGTERM")
	flags.DurationVar(&cfg.AuditRetention, "audit-retention", 90*24*time.Hour, "time that the audit trail is kept for")
	flags.DurationVar(&cfg.TombstoneRetention, "tombstone-retention", 24*time.Hour, "time that a deleted script's tombstone is kept for; agents that were away for longer take a full snapshot")
	flags.DurationVar(&cfg.CollectInterval, "collect-interval", 10*time.Minute, "time between two collections of what nothing needs any more")
	flags.StringVar(&cfg.Gates, "gates", "", "`file` of the sources that steps of rollouts may ask: each a Prometheus or a webhook, and the tenants that may use it")
	cfg.Artifacts.AddFlags(flags)
	cfg.Console.addFlags(flags)
	cfg.Security.addFlags(flags)
	cfg.Debug.AddFlags(flags)
	options.AddFlags(flags)
	flagenv.Bind(cmd)
	cmd.AddCommand(initCommand())
	cmd.SetVersionTemplate(fmt.Sprintf("%s {{.Version}} %s\n", cmd.Name(), runtime.Version()))
	return cmd
}

// addEtcdFlags adds the flags about etcd.
func (c *Config) addEtcdFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.EtcdEndpoints, "etcd-endpoints", []string{"http://127.0.0.1:2379"}, "members of one etcd cluster")
	flags.StringVar(&c.EtcdPrefix, "etcd-prefix", "/scriptorium/", "prefix of all keys in etcd")
	flags.DurationVar(&c.EtcdWait, "etcd-wait", 30*time.Second, "time to wait for etcd at the start")
	c.Security.addEtcdFlags(flags)
}
