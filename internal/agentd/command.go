package agentd

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scriptorium-dev/scriptorium/agent/callstats"
	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
	"github.com/scriptorium-dev/scriptorium/agent/follow"
	"github.com/scriptorium-dev/scriptorium/agent/garbage"
	"github.com/scriptorium-dev/scriptorium/agent/host"
	"github.com/scriptorium-dev/scriptorium/internal/flagenv"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/otlplogs"
	"github.com/scriptorium-dev/scriptorium/internal/telemetry"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/internal/version"
)

// service is the name of agents in what they export over OTLP.
const service = "scriptorium-agent"

// Command returns the agentd command.
func Command() *cobra.Command {
	var (
		cfg     Config
		options telemetry.Options
	)
	cmd := &cobra.Command{
		Use:   "agentd",
		Short: "Hold a fleet's scripts on one node and run them for the gateway beside it",
		Long: `agentd follows the registry, keeps every script on disk, and runs scripts for
callers on this node. It serves them over the Unix sockets resp.sock, http.sock,
grpc.sock and spop.sock in its socket folder. It starts from its disk and keeps serving when
registry and NATS are down.

agentd trusts only what the registry signed with one of the keys of --trusted-key.
It reads keys and certificates again when their files change. Each insecure setting
needs a flag that begins with --insecure, and agentd logs it.

http.sock also answers /healthz, /readyz and /metrics; --admin-address serves
them over TCP as well. SIGTERM drains: agentd finishes the calls in flight first.

Every flag can be set by the environment variable behind it.`,
		Example: `  agentd --trusted-key registry.pub --registry registry.internal:7070 --registry-ca ca.crt --registry-cert tls.crt --registry-key tls.key \
      --nats-url tls://nats.internal:4222 --nats-ca ca.crt --nats-user agent --nats-password-file nats-password
  agentd --trusted-key registry.pub --registry unix:/run/scriptorium/registry.sock --insecure-plaintext   # all on one machine
  agentd --allow uid:101=acme,shop --allow gid:33=* …   # which callers may use which tenants
  agentd --tenant-sockets acme=2001,shop=2002 …   # sockets for one tenant each, and their groups
  agentd --decision-log 'file:/var/log/scriptorium/decisions.jsonl?max-size=100MiB&keep=5' --decision-log opa:https://collector.internal …
  agentd --http-listen 127.0.0.1:7071 --http-callers callers.yaml …   # for gateways without Unix sockets`,
		Args:    cobra.NoArgs,
		Version: version.String(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Workers.Command = append(strings.Fields(cmd.CommandPath())[1:], workerCommand)
			cfg.Metrics = obs.NewMetrics()
			garbage.LeaveRoom(cmd.Context())
			process := telemetry.Process{
				Service: service, Instance: cfg.Name, Metrics: cfg.Metrics,
				Line: otlplogs.Line{Message: host.LineMessage, Text: host.LineText},
			}
			return options.Run(cmd.Context(), process, func(log *slog.Logger, traces *tracing.Tracing) error {
				cfg.Log, cfg.Tracing = log.With("agent", cfg.Name), traces
				return Run(cmd.Context(), cfg)
			})
		},
	}
	cfg.addFlags(cmd.Flags())
	options.AddFlags(cmd.Flags())
	flagenv.Bind(cmd)
	cmd.AddCommand(WorkerCommand(), PrepareCommand())
	cmd.SetVersionTemplate(fmt.Sprintf("%s {{.Version}} %s\n", cmd.Name(), runtime.Version()))
	return cmd
}

// addFlags defines the flags of what the agent does.
func (cfg *Config) addFlags(flags *pflag.FlagSet) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = ""
	}
	flags.StringVar(&cfg.Name, "name", hostname, "name of this agent, unique in the fleet; usually the node's")
	flags.StringToStringVar(&cfg.Labels, "labels", nil, "labels of this agent, as key=value; those without a value are left out")
	flags.StringVar(&cfg.StateDir, "state-dir", defaultStateDir, "folder that scripts are kept in")
	flags.StringVar(&cfg.SocketDir, "socket-dir", defaultSocketDir, "folder of the sockets")
	flags.StringVar(&cfg.Registry, "registry", "", "the registry's address: host:port, dns:///host:port or unix:PATH")
	flags.StringSliceVar(&cfg.NATS, "nats-url", []string{"nats://127.0.0.1:4222"}, "servers of one NATS cluster")
	flags.StringVar(&cfg.SubjectPrefix, "subject-prefix", "scriptorium", "prefix of the NATS subjects; the same as the registry's")
	flags.StringArrayVar(&cfg.Allow, "allow", nil, "callers and the tenants they may use: uid:N=TENANT,… or gid:N=TENANT,… (* is all tenants). For several callers, use ; or repeat the flag. * alone lets every caller use all tenants. When empty, only root and the agent's own user may use them")
	flags.Int64Var(&cfg.CacheBytes, "cache-bytes", 256<<20, "memory for compiled programs, in bytes")
	flags.Int64Var(&cfg.ValueCacheBytes, "value-cache-bytes", 64<<20, "memory for the contents of values that scripts read, in bytes")
	flags.IntVar(&cfg.MaxRunning, "max-running", max(runtime.GOMAXPROCS(0)-1, 1), "calls that run at the same time; more wait")
	flags.IntVar(&cfg.MaxWaiting, "max-waiting", 1024, "calls that may wait; more are answered OVERLOADED")
	flags.StringVar(&cfg.AdminAddress, "admin-address", "", "host:port for /healthz, /readyz and /metrics; none when empty")
	flags.DurationVar(&cfg.DrainTimeout, "drain-timeout", 10*time.Second, "time to finish calls in at SIGTERM")
	flags.StringSliceVar(&cfg.Tenants, "tenants", nil, "tenants whose scripts this agent holds, as names or globs; all when empty")
	flags.StringVar(&cfg.AdoptFleet, "adopt-fleet", "", "id of the fleet to change to, when the registry serves it. When empty, the agent keeps the fleet of its state folder")
	flags.IntVar(&cfg.RemovalShare, "removal-share", 20, "percent of the live scripts that the registry may remove at once without a record of each removal; ten are always allowed")
	flags.BoolVar(&cfg.CounterMetrics, "counter-metrics", false, "make each counter of each tenant's scripts a metric, up to 1,000 a tenant")
	flags.StringSliceVar(&cfg.MetricsTenants, "metrics-tenants", nil, "tenants whose metrics --admin-address shows, as names or globs; * for all. When empty, it shows none, unless --allow '*' is set: nobody knows who asks there")
	flags.IntVar(&cfg.MetricScripts, "metrics-scripts", callstats.DefaultScripts, "scripts that have metrics of their own: those called most lately. The others are tenant=\"other\",script=\"other\"")
	flags.BoolVar(&cfg.ClassicHistograms, "metrics-classic-histograms", false, "give the histograms of scripts classic buckets, too, for a Prometheus that does not scrape native histograms")
	cfg.Workers.addFlags(flags)
	flags.StringToIntVar(&cfg.TenantSockets, tenantSocketsFlag, nil, "tenants with sockets of their own, in the folder tenants/TENANT of the sockets, and the group whose members may use them: TENANT=GID,…. Such a socket serves its tenant alone, and no --allow is needed")
	cfg.Port.addFlags(flags)
	flags.StringArrayVar(&cfg.Decisions.Log, "decision-log", nil, decisionLogHelp)
	flags.Int64Var(&cfg.Decisions.Buffer, "decision-log-buffer", decisionlog.DefaultQueueBytes, "memory for records that wait, for each --decision-log, in bytes; more are dropped and counted")
	flags.Int64Var(&cfg.Decisions.Spool, "decision-spool-bytes", decisionlog.DefaultSpoolBytes, "disk in the state folder for records of tenants with a strict audit that wait for the sinks, in bytes; calls fail when it is full")
	cfg.Security.AddFlags(flags)
	cfg.Debug.AddFlags(flags)
	flags.IntVar(&cfg.TracedAgents, "traced-agents", follow.DefaultTracedAgents, "agents of the fleet, about, that trace how they activate a change that is traced")
}
