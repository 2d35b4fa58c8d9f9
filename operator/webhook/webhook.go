// Package webhook answers whoever applies a Script, a LuaScript or a ScriptTenant at once: it
// compiles the script (and never runs it), looks at every field and at the tenant, and
// refuses with all that is wrong, each fault with its field, and with line and column
// where it is in the source. What it lets through it may warn of.
//
// It is a convenience, and no part of what keeps a fleet safe. The controllers ask
// the same functions and the registry checks again, so that what slips through becomes
// a condition of the object, in the same words. From this follows the rest:
//
//   - The failure policy is Ignore. If no operator answers, objects are taken as they are
//     and judged when there is one. Were it Fail, then a cluster without its operator
//     could neither be installed in one go, nor repaired with kubectl, nor have its
//     finalizers removed, and nothing would be won.
//   - There is no namespaceSelector: the rules match our own kinds alone, so that no
//     namespace, not even kube-system, can be harmed by them, and a tenant's scripts are
//     as wrong in one namespace as in another.
//   - The match condition leaves out updates that do not change the spec, by the
//     generation that the API server has given the object: those of labels, annotations and
//     finalizers, many of them the operator's own, are not sent at all. Nor are
//     deletions, and nor is status, which is another resource. So nothing that is wrong
//     with an object, or with its tenant, keeps anybody from deleting it. The
//     validators hold to the same on their own, whatever the configuration says.
//   - What cannot be known, because the API server does not answer, is no refusal but a
//     warning.
//   - The timeout is 2 s: compiling the largest script that there may be takes under one,
//     and an operator that hangs holds nobody up for longer.
//
// Every replica of the operator serves it, not the leader alone.
//
// +kubebuilder:webhookconfiguration:mutating=false,name=scriptorium-operator
package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/webhook/certs"
	"github.com/scriptorium-dev/scriptorium/script"
)

// The names of what the webhook has in the cluster, unless Config says otherwise.
const (
	DefaultService       = "scriptorium-operator"
	DefaultSecret        = "scriptorium-webhook-tls"
	DefaultConfiguration = "scriptorium-operator"
)

// DefaultPort is where the webhook is served unless Config says otherwise.
const DefaultPort = 9443

// The paths that the API server calls.
const (
	scriptPath       = "/validate-scriptorium-dev-v1alpha1-script"
	luaScriptPath    = "/validate-scriptorium-dev-v1alpha1-luascript"
	scriptTenantPath = "/validate-scriptorium-dev-v1alpha1-scripttenant"
)

// The rules are said twice for their scope, which markers have no word for: the API server
// would complete it, and whoever compares would find another rule than was applied.

// +kubebuilder:webhook:name=scripts.scriptorium.dev,path=/validate-scriptorium-dev-v1alpha1-script,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=2,groups=scriptorium.dev,versions=v1alpha1,resources=scripts,verbs=create;update,admissionReviewVersions=v1,serviceName=scriptorium-operator,serviceNamespace=scriptorium-system,patch=`{"rules":[{"apiGroups":["scriptorium.dev"],"apiVersions":["v1alpha1"],"operations":["CREATE","UPDATE"],"resources":["scripts"],"scope":"Namespaced"}],"matchConditions":[{"name":"spec-changed","expression":"request.operation == 'CREATE' || object.metadata.generation != oldObject.metadata.generation"}]}`
// +kubebuilder:webhook:name=luascripts.scriptorium.dev,path=/validate-scriptorium-dev-v1alpha1-luascript,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=2,groups=scriptorium.dev,versions=v1alpha1,resources=luascripts,verbs=create;update,admissionReviewVersions=v1,serviceName=scriptorium-operator,serviceNamespace=scriptorium-system,patch=`{"rules":[{"apiGroups":["scriptorium.dev"],"apiVersions":["v1alpha1"],"operations":["CREATE","UPDATE"],"resources":["luascripts"],"scope":"Namespaced"}],"matchConditions":[{"name":"spec-changed","expression":"request.operation == 'CREATE' || object.metadata.generation != oldObject.metadata.generation"}]}`
// +kubebuilder:webhook:name=scripttenants.scriptorium.dev,path=/validate-scriptorium-dev-v1alpha1-scripttenant,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=2,groups=scriptorium.dev,versions=v1alpha1,resources=scripttenants,verbs=create;update,admissionReviewVersions=v1,serviceName=scriptorium-operator,serviceNamespace=scriptorium-system,patch=`{"rules":[{"apiGroups":["scriptorium.dev"],"apiVersions":["v1alpha1"],"operations":["CREATE","UPDATE"],"resources":["scripttenants"],"scope":"Cluster"}],"matchConditions":[{"name":"spec-changed","expression":"request.operation == 'CREATE' || object.metadata.generation != oldObject.metadata.generation"}]}`

// +kubebuilder:rbac:groups=scriptorium.dev,resources=scripts;luascripts;scripttenants,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;patch,resourceNames=scriptorium-operator
// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=secrets,verbs=get;update,resourceNames=scriptorium-webhook-tls

// Config of the webhook.
type Config struct {
	// Checkers compile scripts, by the names of the engines.
	Checkers map[string]engine.Checker
	// Advise returns what in a source that compiles is probably not meant, each with its line; nil means no warnings.
	Advise func(src engine.Source) []*script.Error
	// Namespace is the operator's. Its Service there is what the API server calls, and
	// its Secret, which exists, keeps the certificate.
	Namespace string
	// Service, Secret and Configuration are the names of the Service, of the Secret and of
	// the ValidatingWebhookConfiguration; the defaults above if empty.
	Service, Secret, Configuration string
	// Hosts are further names, or IP addresses, that the certificate is for.
	Hosts []string
	// Host and Port are where the webhook is served: on all addresses, and at
	// DefaultPort, unless set.
	Host string
	Port int
	// CertDir, if set, is a folder with the certificate, tls.crt and tls.key, that
	// somebody else keeps, and that is read again when it changes: one of cert-manager,
	// say. Secret and configuration are left alone then.
	CertDir string
}

func (c *Config) setDefaults() {
	c.Service = cmp.Or(c.Service, DefaultService)
	c.Secret = cmp.Or(c.Secret, DefaultSecret)
	c.Configuration = cmp.Or(c.Configuration, DefaultConfiguration)
	c.Port = cmp.Or(c.Port, DefaultPort)
}

// Webhook is what Add has added.
type Webhook struct {
	keeper *certs.Keeper // nil if somebody else keeps the certificate
}

// Ready returns nil when the webhook has a certificate to show, and an error that says
// why there is none.
func (w *Webhook) Ready() error {
	if w.keeper == nil {
		return nil
	}
	return w.keeper.Ready()
}

// Add adds the webhook's server to mgr, and what keeps its certificate.
func Add(mgr ctrl.Manager, cfg Config) (*Webhook, error) {
	cfg.setDefaults()
	if len(cfg.Checkers) == 0 {
		return nil, errors.New("the webhook needs an engine to compile scripts with")
	}
	if cfg.CertDir == "" && cfg.Namespace == "" {
		return nil, errors.New("the webhook needs to know the operator's namespace, where its certificate is kept")
	}
	w := &Webhook{}
	options := webhook.Options{Host: cfg.Host, Port: cfg.Port, CertDir: cfg.CertDir}
	if cfg.CertDir == "" {
		keeper, err := newKeeper(mgr, &cfg)
		if err != nil {
			return nil, err
		}
		if err := mgr.Add(keeper); err != nil {
			return nil, fmt.Errorf("adding the webhook's certificate: %w", err)
		}
		w.keeper = keeper
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = keeper.GetCertificate })
	}
	options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 })
	for _, kind := range kinds.All() {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), kind.New(), scriptIndex, func(o client.Object) []string {
			return []string{scriptKey(kinds.Of(o))}
		})
		if err != nil {
			return nil, fmt.Errorf("indexing %ss by their scripts: %w", kind, err)
		}
	}
	server := webhook.NewServer(options)
	v := validator{
		checkers: cfg.Checkers, advise: cfg.Advise, cached: mgr.GetClient(), direct: mgr.GetAPIReader(),
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	server.Register(scriptPath, admission.WithValidator(mgr.GetScheme(), &scripts[*v1alpha1.Script]{v, kinds.Script}))
	server.Register(luaScriptPath, admission.WithValidator(mgr.GetScheme(), &scripts[*v1alpha1.LuaScript]{v, kinds.LuaScript}))
	server.Register(scriptTenantPath, admission.WithValidator(mgr.GetScheme(), &scriptTenants{}))
	if err := mgr.Add(server); err != nil {
		return nil, fmt.Errorf("adding the webhook's server: %w", err)
	}
	return w, nil
}

// newKeeper returns what keeps the certificate in a Secret. It has a client of its own:
// that of the manager would read all Secrets, to have one in its cache.
func newKeeper(mgr ctrl.Manager, cfg *Config) (*certs.Keeper, error) {
	scheme := kruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(mgr.GetConfig(), client.Options{Scheme: scheme, HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("making a client for the webhook's certificate: %w", err)
	}
	host := cfg.Service + "." + cfg.Namespace + ".svc"
	return certs.New(certs.Config{
		Client:        c,
		Secret:        client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Secret},
		Hosts:         append([]string{host}, cfg.Hosts...),
		Configuration: cfg.Configuration,
		Log:           mgr.GetLogger().WithName("certs"),
	}), nil
}
