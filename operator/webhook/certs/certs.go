// Package certs keeps the certificate that the webhook shows to the API server: it makes
// a CA and a certificate, keeps both in a Secret, renews them long before they end, and
// tells the API server of the CA in the ValidatingWebhookConfiguration.
//
// The Secret is made, empty, by whoever installs the operator: the right to create
// Secrets cannot be narrowed to a name, and who has it and may read one can have the API
// server put the token of any service account of the namespace into it.
//
// All replicas of the operator do this at once, and need no leader. Whoever finds the
// Secret lacking writes what comes next, which it holds the Secret's version against: of
// several writers one wins, and the others read again. Each puts the CAs of the Secret
// into the configuration before it shows a certificate of theirs. A new CA is
// announced there for an hour before the first certificate is signed by it, and an old
// one stays until it ends: whichever replica the API server reaches, and whichever
// API server it is, a certificate that is shown is one that is believed.
//
// There is github.com/open-policy-agent/cert-controller for this. It shows what the
// kubelet has mounted of the Secret, up to a minute after it was made; it watches all
// Secrets of a namespace; and its CA has no successor that is announced.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Config of a Keeper.
type Config struct {
	// Client reads and writes the Secret and the configuration. It has no cache: those two
	// objects are all that is read, by their names.
	Client client.Client
	// Secret is where the CA and the certificate are kept. It has to exist, and may be
	// empty.
	Secret client.ObjectKey
	// Hosts are the names, or IP addresses, by which API servers call the webhook.
	Hosts []string
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
	// Every is how often both are read, so that what somebody has overwritten is put
	// right; DefaultEvery if 0.
	Every time.Duration
	Log   logr.Logger
}

// DefaultEvery is how often the Secret and the configuration are read unless Config says
// otherwise.
const DefaultEvery = 10 * time.Second

// minRetry is how soon what failed is tried again; the time doubles.
const minRetry = 500 * time.Millisecond

// Keeper keeps the certificate. It is safe for concurrent use.
type Keeper struct {
	cfg     Config
	now     func() time.Time
	current atomic.Pointer[tls.Certificate]
	fault   atomic.Pointer[error] // of the last attempt that failed
	missing bool                  // the configuration, and it was said
}

// New returns a Keeper. It does nothing before Start.
func New(cfg Config) *Keeper {
	if cfg.Every <= 0 {
		cfg.Every = DefaultEvery
	}
	return &Keeper{cfg: cfg, now: time.Now}
}

// NeedLeaderElection says that the Keeper runs on all replicas.
func (*Keeper) NeedLeaderElection() bool { return false }

// GetCertificate returns the certificate to show: tls.Config's.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := k.current.Load(); cert != nil {
		return cert, nil
	}
	if why := k.fault.Load(); why != nil {
		return nil, fmt.Errorf("the webhook has no certificate: %w", *why)
	}
	return nil, errors.New("the webhook has no certificate yet")
}

// Ready returns nil when there is a certificate, and why there is none if not.
func (k *Keeper) Ready() error {
	_, err := k.GetCertificate(nil)
	return err
}

// Start keeps the certificate until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	retry := minRetry
	for {
		wait := k.cfg.Every*9/10 + rand.N(k.cfg.Every/5+1)
		if err := k.sync(ctx); err != nil && ctx.Err() == nil {
			k.fault.Store(&err)
			k.cfg.Log.Error(err, "The webhook's certificate could not be looked after; trying again", "in", retry.String())
			wait, retry = retry, min(2*retry, DefaultEvery)
		} else {
			retry = minRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// sync makes the Secret, the configuration and what is shown what they should be.
func (k *Keeper) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	data, err := k.secret(ctx)
	if err != nil {
		return err
	}
	cert, err := tls.X509KeyPair(data[certKey], data[privateKey])
	if err != nil {
		return fmt.Errorf("the certificate in the Secret %s: %w", k.cfg.Secret, err)
	}
	announced := k.announce(ctx, data[bundleKey])
	if announced != nil && k.current.Load() != nil {
		return announced // what is shown now is still believed
	}
	k.current.Store(&cert)
	return announced
}

// attempts is how often a Secret is read again that another replica has changed.
const attempts = 5

// secret returns what the Secret holds, after it was made what it should be.
func (k *Keeper) secret(ctx context.Context) (map[string][]byte, error) {
	for attempt := 1; ; attempt++ {
		data, err := k.trySecret(ctx)
		if !apierrors.IsConflict(err) || attempt == attempts {
			return data, err
		}
	}
}

func (k *Keeper) trySecret(ctx context.Context) (map[string][]byte, error) {
	s := &corev1.Secret{}
	switch err := k.cfg.Client.Get(ctx, k.cfg.Secret, s); {
	case apierrors.IsNotFound(err):
		return nil, k.missingSecret()
	case err != nil:
		return nil, fmt.Errorf("reading the Secret %s: %w", k.cfg.Secret, err)
	}
	data, why, err := next(s.Data, k.cfg.Hosts, k.now())
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	if why == "" {
		return data, nil
	}
	s.Data = data
	switch err := k.cfg.Client.Update(ctx, s); {
	case apierrors.IsNotFound(err): // it was deleted just now
		return nil, k.missingSecret()
	case err != nil:
		return nil, fmt.Errorf("writing the Secret %s: %w", k.cfg.Secret, err)
	}
	k.cfg.Log.Info("The webhook's certificate was renewed", "why", why)
	return data, nil
}

// missingSecret says what to do about the Secret.
func (k *Keeper) missingSecret() error {
	return fmt.Errorf("there is no Secret %s, and the operator may make none: make it: kubectl --namespace %s create secret generic %s; the operator fills it in",
		k.cfg.Secret, k.cfg.Secret.Namespace, k.cfg.Secret.Name)
}

// errNoConfiguration says that there is no webhook to announce a CA for.
var errNoConfiguration = errors.New("there is no such ValidatingWebhookConfiguration")
