package kube

import (
	"context"
	"strings"
)

const (
	// SystemNamespace is where Scriptorium is installed.
	SystemNamespace = "scriptorium-system"
	// TestNamespace is where the tests' own things are.
	TestNamespace = "scriptorium-e2e"

	overlay = "deploy/kustomize/try"
)

// Install installs Scriptorium and waits until all of it is ready.
func (c *Cluster) Install(ctx context.Context, images Images) error {
	manifests, err := c.render(ctx, images)
	if err != nil {
		return err
	}
	c.say("installing %s", overlay)
	if err := c.Apply(ctx, manifests); err != nil {
		return err
	}
	return c.AwaitReady(ctx)
}

func (c *Cluster) render(ctx context.Context, images Images) (string, error) {
	manifests, err := c.Kubectl(ctx, "", "kustomize", overlay)
	if err != nil {
		return "", err
	}
	return images.rewrite(manifests), nil
}

// AwaitReady waits until everything in the system namespace is rolled out.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	out, err := c.Kubectl(ctx, "", "-n", SystemNamespace, "get", "deployments,statefulsets,daemonsets", "-o", "name")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(out) {
		if _, err := c.Kubectl(ctx, "", "-n", SystemNamespace, "rollout", "status", "--timeout=180s", name); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall removes what Install installed, and waits until it is gone. Scripts go
// first, while there is an operator to take them out of the registry.
func (c *Cluster) Uninstall(ctx context.Context, images Images) error {
	for _, kind := range []string{"scripts", "luascripts", "scripttenants"} {
		_, err := c.Kubectl(ctx, "", "delete", kind+".scriptorium.dev", "--all", "--all-namespaces", "--timeout=60s")
		if err != nil && !strings.Contains(err.Error(), "the server doesn't have a resource type") {
			return err
		}
	}
	manifests, err := c.render(ctx, images)
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, manifests, "delete", "--ignore-not-found", "--timeout=120s", "-f", "-")
	return err
}

// Leftovers returns what of Scriptorium is on the cluster, as kubectl names it. See
// Folders for what is on its nodes.
func (c *Cluster) Leftovers(ctx context.Context) ([]string, error) {
	const ofCluster = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings," +
		"validatingwebhookconfigurations,mutatingwebhookconfigurations,apiservices,priorityclasses,persistentvolumes"
	out, err := c.Kubectl(ctx, "", "get", ofCluster, "-o", "name")
	if err != nil {
		return nil, err
	}
	var left []string
	for name := range strings.FieldsSeq(out) {
		if strings.Contains(name, "scriptorium") {
			left = append(left, name)
		}
	}
	const ofNamespaces = "daemonsets,deployments,statefulsets,jobs,cronjobs,pods,services,secrets,configmaps,roles,rolebindings"
	if out, err = c.Kubectl(ctx, "", "get", ofNamespaces, "--all-namespaces", "-o", "name"); err != nil {
		return nil, err
	}
	for name := range strings.FieldsSeq(out) {
		// Not any that has it in its name: a control plane's pods end with their node's.
		if strings.Contains(name, "/scriptorium-") || strings.Contains(name, ".scriptorium.") {
			left = append(left, name)
		}
	}
	return left, nil
}

// MakeTestNamespace makes the tests' namespace, which must not be there yet.
func (c *Cluster) MakeTestNamespace(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "", "create", "namespace", TestNamespace)
	return err
}

// RemoveTestNamespace removes the tests' namespace, and waits until all in it is gone.
func (c *Cluster) RemoveTestNamespace(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "", "delete", "namespace", TestNamespace, "--ignore-not-found", "--timeout=120s")
	return err
}
