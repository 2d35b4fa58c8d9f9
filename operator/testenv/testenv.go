// Package testenv runs a real Kubernetes API for tests: kube-apiserver on an etcd
// of its own, with Scriptorium's definitions installed, and kubectl to talk to it.
// There are no nodes and no controllers: nothing deletes a namespace's content, nor
// what an owner leaves behind.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
	"github.com/scriptorium-dev/scriptorium/internal/toolcache"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

const (
	apiServer  = "kube-apiserver"
	etcdServer = "etcd"

	notBuilt = "needs kube-apiserver and etcd: run `make testenv`, which takes about 5 minutes, once"

	buildPatience = 14 * time.Minute // a build on a busy machine
	startPatience = 2 * time.Minute
	startAttempts = 3
)

// Env is a running Kubernetes API. Its methods may be called concurrently, but for
// Stop and Restart.
type Env struct {
	// Config is for a user with all permissions, without a bound on requests.
	Config *rest.Config
	// Client is one of that user, with no cache. It knows the built-in kinds,
	// Scriptorium's, and CustomResourceDefinition.
	Client client.WithWatch

	dir     string
	kubectl string
	server  *envtest.Environment
}

// Run runs the tests of a package with a Kubernetes API that they share, and returns
// what os.Exit wants: TestMain calls it. Use gets the API before the first test.
func Run(m *testing.M, use func(*Env)) int {
	e, err := start(context.Background())
	if errors.Is(err, toolcache.ErrNotBuilt) {
		return needs.SkipAll(m, notBuilt)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	use(e)
	code := m.Run()
	if err := e.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return max(code, 1)
	}
	return code
}

// Start returns a Kubernetes API that runs until the test ends.
func Start(tb testing.TB) *Env {
	tb.Helper()
	needs.Program(tb, apiServer)
	needs.Program(tb, etcdServer)
	e, err := start(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.stop(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// Scheme returns a scheme with the built-in kinds, Scriptorium's, and
// CustomResourceDefinition.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func start(ctx context.Context) (*Env, error) {
	building, cancel := context.WithTimeout(ctx, buildPatience)
	defer cancel()
	built, err := findPrograms(building)
	if err != nil {
		return nil, err
	}
	root, err := toolcache.Root()
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	var errs []error
	for range startAttempts { // a port that was free may be taken, and 5 s be too little for the first namespace
		e, err := attempt(built, scheme)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := e.install(filepath.Join(root, "deploy", "crd")); err != nil {
			return nil, errors.Join(err, e.stop())
		}
		return e, nil
	}
	return nil, errors.Join(errs...)
}

// programs are paths. The program of the API server is kubectl too and, called etcd, runs
// the etcd-server beside it until the test ends: see the module in kube.
type programs struct{ apiServer, etcd string }

func (p programs) kubectl() string { return filepath.Join(filepath.Dir(p.apiServer), "kubectl") }

func findPrograms(ctx context.Context) (p programs, err error) {
	if p.apiServer, err = needs.Path(ctx, apiServer); err != nil {
		return p, err
	}
	p.etcd, err = needs.Path(ctx, etcdServer)
	return p, err
}

// install installs the definitions of a folder.
func (e *Env) install(crds string) error {
	_, err := envtest.InstallCRDs(e.Config, envtest.CRDInstallOptions{
		Scheme: e.Client.Scheme(), Paths: []string{crds}, ErrorIfPathMissing: true, MaxTime: startPatience,
	})
	if err != nil {
		return fmt.Errorf("install the definitions of %s: %w", crds, err)
	}
	return nil
}

// attempt starts the servers, or leaves nothing behind.
func attempt(built programs, scheme *runtime.Scheme) (_ *Env, err error) {
	dir, err := os.MkdirTemp("", "testenv")
	if err != nil {
		return nil, err
	}
	e := &Env{dir: dir, kubectl: built.kubectl(), server: &envtest.Environment{
		Scheme:                   scheme,
		UseExistingCluster:       new(bool),
		ControlPlaneStartTimeout: startPatience,
		ControlPlaneStopTimeout:  startPatience,
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop())
		}
	}()
	plane := &e.server.ControlPlane
	plane.KubectlPath = built.kubectl()
	etcd := filepath.Join(dir, "bin", "etcd")
	if err := errors.Join(
		os.Mkdir(filepath.Dir(etcd), 0o700), os.Symlink(built.apiServer, etcd), os.Symlink(built.etcd, etcd+"-server"),
	); err != nil {
		return nil, err
	}
	plane.Etcd = &envtest.Etcd{Path: etcd, DataDir: filepath.Join(dir, "etcd")}
	api := plane.GetAPIServer()
	api.Path, api.CertDir = built.apiServer, filepath.Join(dir, "certs") // a folder that outlives a restart
	if err := os.Mkdir(api.CertDir, 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return nil, err
	}
	api.Err = log
	if e.Config, err = e.server.Start(); err != nil {
		return nil, fmt.Errorf("%w\nkube-apiserver said at last:\n%s", err, tail(log.Name()))
	}
	e.Config.QPS = -1
	if e.Client, err = client.NewWithWatch(e.Config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	return e, os.WriteFile(e.Kubeconfig(), e.server.KubeConfig, 0o600)
}

// tail returns the end of a file, for a message.
func tail(path string) string {
	const most = 4 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

func (e *Env) stop() error {
	return errors.Join(e.server.Stop(), os.RemoveAll(e.dir))
}

// Restart kills the API server, calls meanwhile unless it is nil, and starts the
// server again at the same address on what its etcd has.
func (e *Env) Restart(meanwhile func()) error {
	api := e.server.ControlPlane.APIServer
	if err := api.Stop(); err != nil {
		return fmt.Errorf("stop kube-apiserver: %w", err)
	}
	if meanwhile != nil {
		meanwhile()
	}
	if err := api.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver again: %w", err)
	}
	return nil
}

// User returns the configuration of a user of that name, who has the permissions of its
// bindings, without a bound on requests.
func (e *Env) User(name string, groups ...string) (*rest.Config, error) {
	user, err := e.server.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// Namespace makes a namespace with the labels, whose name begins with the prefix, and
// returns its name.
func (e *Env) Namespace(tb testing.TB, prefix string, labels map[string]string) string {
	tb.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-", Labels: labels}}
	if err := e.Client.Create(tb.Context(), ns); err != nil {
		tb.Fatal(err)
	}
	return ns.Name
}
