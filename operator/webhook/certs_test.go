package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/internal/engines"
	"github.com/scriptorium-dev/scriptorium/internal/certtest"
	"github.com/scriptorium-dev/scriptorium/internal/porttest"
	"github.com/scriptorium-dev/scriptorium/operator/webhook"
	"github.com/scriptorium-dev/scriptorium/operator/webhook/certs"
)

// Several replicas at once agree on one CA and one certificate, configure the API server to
// trust them, and put right what somebody breaks.
func TestReplicasAgreeOnACertificate(t *testing.T) {
	ctx := t.Context()
	secret := client.ObjectKey{Namespace: system, Name: "replicas"}
	config := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "replicas"}, Webhooks: []admissionv1.ValidatingWebhook{
		uncalled("a.replicas.test"), uncalled("b.replicas.test"),
	}}
	empty := func() error {
		return kube.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}})
	}
	if err := errors.Join(kube.Client.Create(ctx, config), empty()); err != nil {
		t.Fatal(err)
	}
	keepers := make([]*certs.Keeper, 4)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	t.Cleanup(func() {
		stop()
		running.Wait()
		stored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}}
		if err := errors.Join(kube.Client.Delete(context.Background(), config), kube.Client.Delete(context.Background(), stored)); err != nil {
			t.Error(err)
		}
	})
	for i := range keepers {
		keepers[i] = certs.New(certs.Config{
			Client: kube.Client, Secret: secret, Hosts: []string{"a.svc"}, Configuration: config.Name, Every: 50 * time.Millisecond, Log: logr.Discard(),
		})
		running.Go(func() {
			if err := keepers[i].Start(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	first := agreed(t, keepers, config, nil)

	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}}
	for i, change := range []func() error{
		func() error { return errors.Join(kube.Client.Delete(ctx, s), empty()) },
		func() error {
			s.Data, s.ResourceVersion = map[string][]byte{"tls.crt": []byte("x")}, ""
			return kube.Client.Update(ctx, s)
		},
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		next := agreed(t, keepers, config, first)
		if next.Equal(first) {
			t.Errorf("after change %d the certificate is the same", i)
		}
		first = next
	}

	// Somebody applies the manifest again, which has no CA.
	if err := wait(ctx, func() error { // a keeper may write at the same moment
		if err := kube.Client.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		config.Webhooks[1].ClientConfig.CABundle = nil
		return kube.Client.Update(ctx, config)
	}); err != nil {
		t.Fatal(err)
	}
	if same := agreed(t, keepers, config, nil); !same.Equal(first) {
		t.Error("the certificate changed, and nothing was wrong with it")
	}
}

func uncalled(name string) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name: name, SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
	}
}

// agreed waits until all keepers show one certificate, not the one before, that is of the
// configuration's CAs in all its webhooks, and returns it.
func agreed(t *testing.T, keepers []*certs.Keeper, config *admissionv1.ValidatingWebhookConfiguration, before *x509.Certificate) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	err := wait(t.Context(), func() error {
		leaf = nil
		if err := kube.Client.Get(t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
			return err
		}
		for i, k := range keepers {
			shown, err := k.GetCertificate(nil)
			if err != nil {
				return err
			}
			if leaf != nil && !shown.Leaf.Equal(leaf) || before != nil && shown.Leaf.Equal(before) {
				return fmt.Errorf("keeper %d shows another certificate", i)
			}
			leaf = shown.Leaf
		}
		for _, w := range config.Webhooks {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(w.ClientConfig.CABundle)
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.svc"}); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// The operator may make no Secret. While its own is missing it says what to do, and
// when it is there fills it in.
func TestMissingSecret(t *testing.T) {
	as, err := kube.User("operator")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(as, client.Options{Scheme: kube.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: webhook.DefaultSecret}}
	if err := kube.Client.Delete(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, s); !apierrors.IsForbidden(err) {
		t.Errorf("the operator makes a Secret: %v", err)
	}
	keeper := certs.New(certs.Config{
		Client: c, Secret: client.ObjectKeyFromObject(s), Hosts: []string{"127.0.0.1"}, Configuration: webhook.DefaultConfiguration, Every: 50 * time.Millisecond, Log: logr.Discard(),
	})
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	running.Go(func() {
		if err := keeper.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	const advice = "make it: kubectl --namespace scriptorium-system create secret generic scriptorium-webhook-tls"
	if err := wait(ctx, func() error {
		if err := keeper.Ready(); err == nil || !strings.Contains(err.Error(), advice) {
			return fmt.Errorf("it says: %w", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.ResourceVersion = ""
	if err := errors.Join(kube.Client.Create(ctx, s), wait(ctx, keeper.Ready), wait(ctx, asked)); err != nil {
		t.Fatal(err)
	}
}

// A certificate that somebody else keeps in a folder is shown, and shown anew when it
// changes; no Secret is made.
func TestFolderOfCertificates(t *testing.T) {
	ca := certtest.NewCA(t)
	install := func() certtest.Pair { return ca.Issue("tls", certtest.Leaf{}) }
	pair := install()
	dir := filepath.Dir(pair.Cert)
	port := porttest.Port(t)
	const secret = "not-made"
	mgr, err := newManager(kube.Config, webhook.Config{Checkers: engines.Checkers(), Namespace: system, Secret: secret, Host: "127.0.0.1", Port: port, CertDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		if err := wait(ctx, func() error { return shows(ctx, port, pair.Certificate) }); err != nil {
			t.Fatal(err)
		}
		pair = install()
	}
	err = kube.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: secret}, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Secret: %v", err)
	}
}

// shows returns an error unless the server at the port shows the certificate.
func shows(ctx context.Context, port int, want *x509.Certificate) error {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if !conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Equal(want) {
		return errors.New("it shows another certificate")
	}
	return nil
}
