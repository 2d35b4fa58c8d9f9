// Package kube is the cluster that the end-to-end tests run on: any that a kubeconfig
// leads to. It installs Scriptorium there as a person would, with kubectl, puts
// gateway pods on the nodes, and reads what they saw through the API server.
package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a Kubernetes cluster. It is safe for concurrent use.
type Cluster struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	root    string // of the module
	say     func(format string, args ...any)
}

// Connect returns the cluster that $KUBECONFIG names, as kubectl does. The cluster calls say
// before each step.
func Connect(ctx context.Context, say func(format string, args ...any)) (*Cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("which cluster? Set KUBECONFIG: %w", err)
	}
	config.QPS = -1 // no limit: what is measured is the cluster, not this client's manners
	config.WarningHandler = rest.NoWarnings{}
	c := &Cluster{say: say}
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.root, err = moduleRoot(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("run this inside the module")
	}
	return filepath.Dir(file), nil
}

// Path returns the path of a file of the module.
func (c *Cluster) Path(elem ...string) string {
	return filepath.Join(slices.Insert(elem, 0, c.root)...)
}

// Kubectl runs kubectl with the input and returns what it printed. If it fails, the
// error has what it said.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Dir = c.root
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// Apply applies the manifests with kubectl.
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	_, err := c.Kubectl(ctx, manifests, "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}

// Nodes returns the names of the cluster's nodes that are ready, sorted.
func (c *Cluster) Nodes(ctx context.Context) ([]string, error) {
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range list.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				names = append(names, node.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Shell runs commands by the shell, as a person does who is in the module's folder, with
// more variables. It returns all that they printed, which an error has, too.
func (c *Cluster) Shell(ctx context.Context, commands string, env ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-euc", commands)
	cmd.Dir, cmd.Env = c.root, append(os.Environ(), env...)
	cmd.WaitDelay = time.Second // what the shell started may have its output open, and go on
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.TrimSpace(commands), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// Until asks again and again until check returns nil, or ctx is done: then it returns
// what check said last.
func Until(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var missing error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || missing == nil { // else it was cut short, and says no more
			missing = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %w", missing)
		}
	}
}
