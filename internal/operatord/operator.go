// Package operatord puts the operator's process together: a manager with its
// controllers, the connection with a registry, and what operators of it look at.
package operatord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/engine/lua/lint"
	"github.com/scriptorium-dev/scriptorium/internal/debugsock"
	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/obs"
	"github.com/scriptorium-dev/scriptorium/internal/security"
	"github.com/scriptorium-dev/scriptorium/internal/tlsfiles"
	"github.com/scriptorium-dev/scriptorium/internal/tracing"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/controller"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/operator/tenancy"
	"github.com/scriptorium-dev/scriptorium/operator/webhook"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Config of an operator's process.
type Config struct {
	// Kube is how the API server is reached, and how often at most (QPS, Burst).
	Kube *rest.Config
	// Registry is the registry's address: host:port, dns:///host:port or unix:PATH.
	Registry string
	// Caller is how the operator shows itself to the registry, and what it believes it
	// by; InsecurePlaintext allows a connection without TLS.
	Caller            security.Caller
	InsecurePlaintext bool
	// InsecureFileModes accepts secrets in files that other users can read or change.
	InsecureFileModes bool
	// AdminAddress is the host:port of /healthz, /readyz and /metrics; none if empty.
	AdminAddress string
	// Namespace is the operator's own: that of the pod if empty, or DefaultNamespace.
	Namespace string
	// LeaderElection has one of several operators lead, by a lease in Namespace.
	LeaderElection bool
	// Concurrency and DeleteWait are those of the controller.
	Concurrency int
	DeleteWait  time.Duration
	// Webhook serves the admission webhook; nil for none. Its namespace is the
	// operator's if it has none, and it compiles with the engine of this edition of
	// Scriptorium if it has no other.
	Webhook *webhook.Config
	// Tracing exports spans; nil for none. Its owner closes it.
	Tracing *tracing.Tracing

	Debug debugsock.Options // served by Run
	Log   *slog.Logger
}

// DefaultNamespace is where the operator lives if it is not told, and runs in no pod.
const DefaultNamespace = "scriptorium-system"

// podNamespace is the file that tells a pod its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the namespace that the operator runs in.
func ownNamespace() string {
	text, err := os.ReadFile(podNamespace)
	if err != nil {
		return DefaultNamespace
	}
	return strings.TrimSpace(string(text))
}

// leaseName is the lease that says who leads.
const leaseName = "scriptorium-operator"

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=scriptorium-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=scriptorium-system,resources=leases,resourceNames=scriptorium-operator,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=events,verbs=create;patch

// Operator is an operator that Run runs.
type Operator struct {
	log      *slog.Logger
	manager  ctrl.Manager
	registry *registryclient.Client
	fleet    *fleet.Watch
	webhook  *webhook.Webhook // nil if there is none
	metrics  *prometheus.Registry

	listener net.Listener // of the admin address; nil if there is none
}

// Run makes an operator and runs it until ctx is done.
func Run(ctx context.Context, cfg Config) error {
	closeDebug, err := cfg.Debug.Serve(cfg.Log)
	if err != nil {
		return err
	}
	defer closeDebug()
	o, err := New(cfg)
	if err != nil {
		return err
	}
	return o.Run(ctx)
}

// New makes an operator. Whoever does not run it has to know that it listens on its admin
// address.
func New(cfg Config) (*Operator, error) {
	if cfg.Registry == "" {
		return nil, script.Errorf(script.Invalid, "--registry", "is required: host:port, dns:///host:port or unix:PATH")
	}
	if cfg.Namespace == "" {
		cfg.Namespace = ownNamespace()
	}
	modes := tlsfiles.ModesFor(cfg.InsecureFileModes)
	if err := checkWebhookKey(cfg, modes); err != nil {
		return nil, err
	}
	manager, err := newManager(cfg)
	if err != nil {
		return nil, err
	}
	metrics, expiries := prometheus.NewRegistry(), tlsfiles.NewExpiries("operator")
	if err := metrics.Register(expiries); err != nil {
		return nil, fmt.Errorf("register the metrics: %w", err)
	}
	cfg.Caller.Expiries = expiries
	connection, err := cfg.Caller.Open(cfg.Registry, "registry-", cfg.InsecurePlaintext, modes, cfg.Log)
	if err != nil {
		return nil, err
	}
	registry, err := registryclient.Dial(cfg.Registry, registryclient.WithDialOptions(connection.DialOptions()...))
	if err != nil {
		return nil, err
	}
	o := &Operator{
		log: cfg.Log, manager: manager, registry: registry,
		fleet: fleet.New(registry, cfg.Log), metrics: metrics,
	}
	if err := o.setup(cfg); err != nil {
		return nil, errors.Join(err, registry.Close())
	}
	return o, nil
}

// checkWebhookKey looks at the mode of the key that controller-runtime reads itself.
func checkWebhookKey(cfg Config, modes tlsfiles.Modes) error {
	if cfg.Webhook == nil || cfg.Webhook.CertDir == "" {
		return nil
	}
	if err := modes.Check(filepath.Join(cfg.Webhook.CertDir, "tls.key"), cfg.Log); err != nil {
		return script.Errorf(script.Invalid, "--webhook-cert-dir", "%w", err)
	}
	return nil
}

func newManager(cfg Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make the scheme: %w", err)
	}
	log := logr.FromSlogHandler(cfg.Log.Handler())
	manager, err := ctrl.NewManager(cfg.Kube, ctrl.Options{
		Scheme: scheme,
		Logger: log,
		// Who changed which field takes as much memory as the objects themselves.
		Cache:                         cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // they are served with the probes
		LeaderElection:                cfg.LeaderElection,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       cfg.Namespace,
		LeaderElectionReleaseOnCancel: true,
		// Several operators may run in one process, after each other or at once.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the connection with the API server: %w", err)
	}
	return manager, nil
}

// setup adds all parts to the manager.
func (o *Operator) setup(cfg Config) error {
	if err := o.manager.Add(o.fleet); err != nil {
		return err
	}
	if err := o.manager.Add(o.markFleet(cfg.Namespace)); err != nil {
		return err
	}
	bounded := newRegistry(o.registry)
	err := tenancy.Setup(o.manager, tenancy.Config{Registry: bounded, DeleteWait: cfg.DeleteWait, Tracer: cfg.Tracing.Tracer()})
	if err != nil {
		return err
	}
	err = controller.Setup(o.manager, controller.Config{
		Registry: bounded, Fleet: o.fleet,
		DeleteWait: cfg.DeleteWait, Concurrency: cfg.Concurrency, Log: cfg.Log, Metrics: o.metrics, Tracer: cfg.Tracing.Tracer(),
	})
	if err != nil {
		return err
	}
	if err := o.serveWebhook(cfg); err != nil {
		return err
	}
	if err := errors.Join(o.metrics.Register(bounded.requests), o.register(), cfg.Tracing.Register(o.metrics)); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	if cfg.AdminAddress == "" {
		return nil
	}
	o.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", cfg.AdminAddress)
	if err != nil {
		return fmt.Errorf("listen on the admin address: %w", err)
	}
	return nil
}

// serveWebhook adds the webhook, if the configuration has one.
func (o *Operator) serveWebhook(cfg Config) (err error) {
	if cfg.Webhook == nil {
		return nil
	}
	w := *cfg.Webhook
	w.Namespace = cmp.Or(w.Namespace, cfg.Namespace)
	if w.Checkers == nil {
		w.Checkers, w.Advise = engines.Checkers(), lint.Advise
	}
	o.webhook, err = webhook.Add(o.manager, w)
	return err
}

// AdminAddr is the address of /healthz, /readyz and /metrics; nil if there is none.
func (o *Operator) AdminAddr() net.Addr {
	if o.listener == nil {
		return nil
	}
	return o.listener.Addr()
}

// Leading is closed when the operator leads.
func (o *Operator) Leading() <-chan struct{} { return o.manager.Elected() }

// Run runs the operator until ctx is done, or until it cannot go on, as when another one
// leads now. Call it once.
func (o *Operator) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, o.registry.Close()) }()
	if o.listener != nil {
		admin := obs.ServeAdmin(o.listener, obs.Handler(prometheus.Gatherers{ctrlmetrics.Registry, o.metrics}, o.Ready), o.log)
		defer func() { err = errors.Join(err, admin.Close()) }()
	}
	if err := o.manager.Start(ctx); err != nil {
		return fmt.Errorf("run the operator: %w", err)
	}
	o.log.Info("stopped")
	return nil
}

// Ready says whether the operator can do its work, or take it over: it has read what
// there is of the API server. Without a registry it is degraded: it waits for it.
func (o *Operator) Ready(ctx context.Context) obs.Readiness {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !o.manager.GetCache().WaitForCacheSync(ctx) {
		return obs.Readiness{Reason: "the objects have not been read from the API server yet"}
	}
	if o.webhook != nil {
		if err := o.webhook.Ready(); err != nil {
			return obs.Readiness{Reason: "the webhook is not ready: " + err.Error()}
		}
	}
	state := obs.Readiness{Ready: true}
	if s := o.fleet.State(); !s.Live {
		why := "not connected yet"
		if s.Err != nil {
			why = s.Err.Error()
		}
		state.Degraded = []string{"the registry cannot be watched: " + why}
	}
	return state
}

// register registers what only the whole knows.
func (o *Operator) register() error {
	const namespace, subsystem = "scriptorium", "operator"
	gauge := func(name, help string, value func() bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, func() float64 {
			if value() {
				return 1
			}
			return 0
		})
	}
	return errors.Join(
		o.metrics.Register(gauge("fleet_watch_live", "1 while it is known what the fleet's agents run.", func() bool { return o.fleet.State().Live })),
		o.metrics.Register(gauge("leader", "1 while this operator leads.", func() bool {
			select {
			case <-o.Leading():
				return true
			default:
				return false
			}
		})),
	)
}
