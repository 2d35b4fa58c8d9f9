package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the Job may do: it reads Secrets by their names, and changes certificates.
// Creating cannot be narrowed to names.
//
// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=secrets,verbs=get,resourceNames=scriptorium-access;scriptorium-admin-tls;scriptorium-agent-nats;scriptorium-agent-tls;scriptorium-ca;scriptorium-etcd-ca;scriptorium-etcd-tls;scriptorium-nats-tls;scriptorium-nats-users;scriptorium-operator-tls;scriptorium-registry-etcd;scriptorium-registry-nats;scriptorium-registry-tls;scriptorium-signing;scriptorium-trust
// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=secrets,verbs=update,resourceNames=scriptorium-admin-tls;scriptorium-agent-tls;scriptorium-etcd-tls;scriptorium-nats-tls;scriptorium-operator-tls;scriptorium-registry-etcd;scriptorium-registry-tls

// Secrets are those of one namespace. The clients of k8s.io/client-go are.
type Secrets interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error)
}

// Options say what is wanted.
type Options struct {
	// Namespace and DNSSuffix complete the names of Services.
	Namespace, DNSSuffix string
	// Services that certificates are made for. Without an EtcdService or a NATSService,
	// nothing that has to do with it is made.
	RegistryService, EtcdService, NATSService string
	// NoCertificates leaves certificates and CAs to others.
	NoCertificates bool
	// DryRun asks the API server whether it would take each change, and changes nothing.
	DryRun bool
	// Now is the time; nil: time.Now.
	Now func() time.Time
}

// Action is what became of a Secret.
type Action string

// The actions.
const (
	Made    Action = "made"
	Renewed Action = "renewed"
	Kept    Action = "kept"
)

// Change is what became of one Secret. It holds nothing secret.
type Change struct {
	Secret string
	Action Action
	Detail string
}

// Run makes the Secrets that are missing and renews the certificates that are due, and
// returns what became of each. Several may run at the same time. Errors are one for each
// Secret that is not as it has to be, and say what to do; the others are made none the
// less, as far as they do not need it.
func Run(ctx context.Context, secrets Secrets, opts Options) ([]Change, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &run{ctx: ctx, secrets: secrets, opts: opts}
	var ca *authority
	if !opts.NoCertificates {
		ca = r.authority(CA, "scriptorium CA")
	}
	r.signing(ca)
	r.ensure(Access, secret{
		make:  func() (data, error) { return data{policyKey: []byte(policy)}, nil },
		check: has(policyKey),
	})
	if opts.NATSService != "" {
		r.nats()
	}
	if ca != nil {
		r.certificate(RegistryTLS, ca, server(opts.RegistryService, opts.Namespace, opts.DNSSuffix))
		r.certificate(OperatorTLS, ca, client("operator"))
		r.certificate(AgentTLS, ca, client("agent"))
		r.certificate(AdminTLS, ca, client("admin"))
		if opts.NATSService != "" {
			r.certificate(NATSTLS, ca, server(opts.NATSService, opts.Namespace, opts.DNSSuffix))
		}
	}
	if !opts.NoCertificates && opts.EtcdService != "" {
		if ca := r.authority(EtcdCA, "scriptorium etcd CA"); ca != nil {
			r.certificate(EtcdTLS, ca, server(opts.EtcdService, opts.Namespace, opts.DNSSuffix))
			r.certificate(RegistryEtcd, ca, client("registry"))
		}
	}
	return r.changes, errors.Join(r.errs...)
}

type data = map[string][]byte

// run is one run. Each step notes what it did, or why it could not.
type run struct {
	ctx     context.Context
	secrets Secrets
	opts    Options
	changes []Change
	errs    []error
	down    bool // the API server does nothing that it is asked
}

// secret says how a Secret comes to be.
type secret struct {
	kind   corev1.SecretType
	make   func() (data, error)
	detail func(data) string // of what was made; nil for none
	// check says what is wrong with what there is; nil checks nothing.
	check func(*corev1.Secret) error
	// renew returns what to change in what there is, and why; nothing if it may stay.
	renew func(*corev1.Secret) (changed data, why string, err error)
}

// has checks that a Secret has what its readers name.
func has(keys ...string) func(*corev1.Secret) error {
	return func(s *corev1.Secret) error {
		for _, key := range keys {
			if len(s.Data[key]) == 0 {
				return fmt.Errorf("has no key %s", key)
			}
		}
		return nil
	}
}

// conflicts is how often others may be faster, at most. Each time they have done what
// was to be done here.
const conflicts = 10

// ensure returns what the Secret holds at the end, or nil if there is an error.
func (r *run) ensure(name string, want secret) data {
	for range conflicts {
		if r.down {
			return nil // the first error says it
		}
		found, err := r.secrets.Get(r.ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			found, err = r.create(name, want)
		case err == nil:
			found, err = r.keep(found, want)
		}
		switch {
		case err == nil:
			return found.Data
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
			continue
		}
		r.down = isDown(err)
		r.failed(name, err)
		return nil
	}
	r.failed(name, errors.New("others change it all the time: see who does"))
	return nil
}

// isDown reports whether an error is one of the API server, or of the namespace, so
// that the next request would end no better. One that is about a Secret alone, such as
// that it may not be read, is none.
func isDown(err error) bool {
	_, unreachable := errors.AsType[*url.Error](err)
	_, answered := errors.AsType[*apierrors.StatusError](err)
	about := unreachable || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return about || answered && (apierrors.IsNotFound(err) || // the namespace: a Secret that is missing is made
		apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err))
}

func (r *run) failed(name string, err error) {
	r.errs = append(r.errs, fmt.Errorf("secret %s in namespace %s: %w", name, r.opts.Namespace, err))
}

func (r *run) note(name string, action Action, detail string) {
	r.changes = append(r.changes, Change{Secret: name, Action: action, Detail: detail})
}

func (r *run) dry() []string {
	if r.opts.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (r *run) create(name string, want secret) (*corev1.Secret, error) {
	data, err := want.make()
	if err != nil {
		return nil, err
	}
	made, err := r.secrets.Create(r.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{partOfLabel: partOf, managedByLabel: managedBy}},
		Type:       want.kind, Data: data,
	}, metav1.CreateOptions{DryRun: r.dry(), FieldManager: managedBy})
	if err != nil {
		return nil, err
	}
	detail := ""
	if want.detail != nil {
		detail = want.detail(data)
	}
	r.note(name, Made, detail)
	return made, nil
}

// remake is what to do about a Secret that cannot be used.
const remake = "put it right, or delete the Secret and run this again to have a new one made"

func (r *run) keep(found *corev1.Secret, want secret) (*corev1.Secret, error) {
	if want.check != nil {
		if err := want.check(found); err != nil {
			return nil, fmt.Errorf("%w: %s", err, remake)
		}
	}
	if found.Labels[managedByLabel] != managedBy {
		r.note(found.Name, Kept, "somebody else's")
		return found, nil
	}
	if want.renew == nil {
		r.note(found.Name, Kept, "")
		return found, nil
	}
	changed, why, err := want.renew(found)
	if err != nil {
		return nil, err
	}
	if changed == nil {
		r.note(found.Name, Kept, why)
		return found, nil
	}
	renewed := found.DeepCopy()
	for key, value := range changed {
		renewed.Data[key] = value
	}
	// It carries the version that was read: whoever changed it since wins.
	if renewed, err = r.secrets.Update(r.ctx, renewed, metav1.UpdateOptions{DryRun: r.dry(), FieldManager: managedBy}); err != nil {
		return nil, err
	}
	r.note(found.Name, Renewed, why)
	return renewed, nil
}
