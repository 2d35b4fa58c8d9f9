// Package kubeforward reaches the registry of a Kubernetes cluster through the API server: by the port-forward
// of a registry pod, with the credentials of a Secret.
package kubeforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // the dialers of client-go still return its types
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The names of our chart.
const (
	DefaultNamespace = "scriptorium-system"
	DefaultService   = "scriptorium-registry"
	DefaultSecret    = "scriptorium-admin-tls"
)

// portName is that of the registry's Service for clients.
const portName = "grpc"

// apiTimeout bounds one request to the API server.
const apiTimeout = 10 * time.Second

// Options select the registry. Empty fields are those of the kubeconfig, or the defaults.
type Options struct {
	Kubeconfig string // a file; else $KUBECONFIG, else ~/.kube/config, else that of a pod
	Context    string // of the kubeconfig
	Namespace  string
	Service    string
	Secret     string // with ca.crt, and tls.crt and tls.key, or token
}

// Cluster is a way to the registry. It is safe for concurrent use.
type Cluster struct {
	o      Options
	config *rest.Config
	core   rest.Interface
	slices rest.Interface
}

// Credentials are what the Secret holds.
type Credentials struct {
	CA, Cert, Key []byte // PEM
	Token         string
}

// Open reads the kubeconfig. It asks the cluster nothing yet.
func Open(o Options) (*Cluster, error) {
	for _, field := range []struct {
		value    *string
		fallback string
	}{{&o.Namespace, DefaultNamespace}, {&o.Service, DefaultService}, {&o.Secret, DefaultSecret}} {
		if *field.value == "" {
			*field.value = field.fallback
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	if err != nil {
		return nil, script.Errorf(script.Invalid, "kubeconfig", "%w: check KUBECONFIG and the context", err)
	}
	config.Timeout = apiTimeout
	c := &Cluster{o: o, config: config}
	if c.core, err = restClient(config, corev1.SchemeGroupVersion, corev1.AddToScheme); err != nil {
		return nil, err
	}
	c.slices, err = restClient(config, discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme)
	return c, err
}

// restClient is a client of one group. The clientset would bring all of Kubernetes' types.
func restClient(config *rest.Config, of schema.GroupVersion, add func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, of)
	c := rest.CopyConfig(config)
	c.GroupVersion = &of
	c.APIPath = "/apis"
	if of.Group == "" {
		c.APIPath = "/api"
	}
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

// Address is the registry's, as its certificate names it. It is no address outside of the cluster.
func (c *Cluster) Address() string {
	return net.JoinHostPort(c.o.Service+"."+c.o.Namespace+".svc", "7070")
}

// String names the way in errors.
func (c *Cluster) String() string {
	return fmt.Sprintf("Service %s in namespace %s of %s", c.o.Service, c.o.Namespace, c.config.Host)
}

// Credentials reads the Secret.
func (c *Cluster) Credentials(ctx context.Context) (Credentials, error) {
	var secret corev1.Secret
	if err := c.core.Get().Namespace(c.o.Namespace).Resource("secrets").Name(c.o.Secret).Do(ctx).Into(&secret); err != nil {
		return Credentials{}, c.fault("get the Secret "+c.o.Secret, err)
	}
	found := Credentials{CA: secret.Data["ca.crt"], Cert: secret.Data["tls.crt"], Key: secret.Data["tls.key"], Token: strings.TrimSpace(string(secret.Data["token"]))}
	switch {
	case len(found.CA) == 0:
		return found, script.Errorf(script.Invalid, "kube.secret", "the Secret %s in namespace %s has no ca.crt", c.o.Secret, c.o.Namespace)
	case found.Token == "" && (len(found.Cert) == 0 || len(found.Key) == 0):
		return found, script.Errorf(script.Invalid, "kube.secret", "the Secret %s in namespace %s has neither tls.crt and tls.key nor token", c.o.Secret, c.o.Namespace)
	}
	return found, nil
}

// Dial connects to a registry pod that is ready.
func (c *Cluster) Dial(ctx context.Context) (net.Conn, error) {
	pod, port, err := c.pod(ctx)
	if err != nil {
		return nil, err
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() { // the dialers of client-go know no context
		conn, err := c.forward(pod, port)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, c.fault("forward a port to the pod "+pod, r.err)
		}
		return r.conn, nil
	case <-ctx.Done():
		go func() {
			if r := <-done; r.conn != nil {
				_ = r.conn.Close() // nobody waits for it any more
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// pod returns a ready pod of the Service, and its port.
func (c *Cluster) pod(ctx context.Context) (name string, port int32, err error) {
	var list discoveryv1.EndpointSliceList
	err = c.slices.Get().Namespace(c.o.Namespace).Resource("endpointslices").
		Param("labelSelector", discoveryv1.LabelServiceName+"="+c.o.Service).Do(ctx).Into(&list)
	if err != nil {
		return "", 0, c.fault("list endpointslices", err)
	}
	for i := range list.Items {
		for _, p := range list.Items[i].Ports {
			if p.Port == nil || p.Name != nil && *p.Name != portName && len(list.Items[i].Ports) > 1 {
				continue
			}
			for _, e := range list.Items[i].Endpoints {
				if e.TargetRef != nil && e.TargetRef.Kind == "Pod" && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					return e.TargetRef.Name, *p.Port, nil
				}
			}
		}
	}
	return "", 0, script.Errorf(script.Unavailable, "", "no registry pod is ready: %s has no endpoint: kubectl -n %s get pods", c, c.o.Namespace)
}

// forward opens a connection to the port of the pod, as kubectl does.
func (c *Cluster) forward(pod string, port int32) (net.Conn, error) {
	config := rest.CopyConfig(c.config)
	config.Timeout = 0 // the connection stays
	url := c.core.Post().Namespace(c.o.Namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	url.RawQuery = ""
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(url, config)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialer(tunnel, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	streams, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	conn, err := connect(streams, port)
	if err != nil {
		return nil, errors.Join(err, streams.Close())
	}
	return conn, nil
}

// connect makes the two streams of a forwarded port a connection.
func connect(streams httpstream.Connection, port int32) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	faults, err := streams.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	if err := faults.Close(); err != nil { // nothing is written to it
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := streams.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe() // which has deadlines
	conn := &forwarded{Conn: near}
	go func() {
		if said, _ := io.ReadAll(io.LimitReader(faults, 1<<10)); len(said) > 0 {
			conn.fail(fmt.Errorf("port-forward: %s", said))
			_ = far.Close()
		}
	}()
	go func() {
		_, _ = io.Copy(far, data)
		_ = far.Close()
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = streams.Close() // with it end the others
		_ = far.Close()
	}()
	return conn, nil
}

// forwarded is a connection through the API server, which may say why it ends.
type forwarded struct {
	net.Conn

	mu  sync.Mutex
	err error
}

func (f *forwarded) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// Read implements net.Conn.
func (f *forwarded) Read(data []byte) (int, error) {
	n, err := f.Conn.Read(data)
	if errors.Is(err, io.EOF) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err != nil {
			return n, f.err
		}
	}
	return n, err
}

// fault says what the API server refused, and what to do about it.
func (c *Cluster) fault(what string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return script.Errorf(script.Denied, "kube", "you may not %s in namespace %s (%w): the page docs/kubernetes.md lists the rights that --kube needs", what, c.o.Namespace, err)
	case apierrors.IsUnauthorized(err):
		return script.Errorf(script.Denied, "kube", "the cluster %s does not know you: log in, or check the kubeconfig (%w)", c.config.Host, err)
	case apierrors.IsNotFound(err):
		return script.Errorf(script.NotFound, "kube", "cannot %s in namespace %s (%w): is Scriptorium installed there? Name another one with --kube=NAMESPACE", what, c.o.Namespace, err)
	case script.KindOf(err) == script.Unavailable:
		return err
	}
	return script.Errorf(script.Unavailable, "kube", "cannot %s in namespace %s of %s: %w", what, c.o.Namespace, c.config.Host, err)
}
