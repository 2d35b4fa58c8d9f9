package kube

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed prometheus.yaml
var prometheusYAML string

var prometheusTemplate = template.Must(template.New("prometheus").Parse(prometheusYAML))

// publishedPrometheus is the image that nodes pull unless it is built here.
const publishedPrometheus = "prom/prometheus:v3.7.3"

// StartPrometheus runs a Prometheus in the tests' namespace, as prometheus:9090, which scrapes the
// pods of a component every second, as they are now. It returns when it knows all of them.
func (c *Cluster) StartPrometheus(ctx context.Context, images Images, component string, port int) error {
	pods, err := c.Client.CoreV1().Pods(SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		return err
	}
	var targets []string
	for _, pod := range pods.Items {
		targets = append(targets, strconv.Quote(net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port))))
	}
	var manifest strings.Builder
	err = prometheusTemplate.Execute(&manifest, map[string]string{
		"Namespace": TestNamespace, "Image": publishedPrometheus, "Targets": strings.Join(targets, ", "),
	})
	if err != nil {
		return err
	}
	// The network policies let those that may read metrics.
	if _, err := c.Kubectl(ctx, "", "label", "namespace", TestNamespace, "--overwrite", "scriptorium.dev/metrics-access=true"); err != nil {
		return err
	}
	if err := c.Apply(ctx, images.rewrite(manifest.String())); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "", "-n", TestNamespace, "rollout", "status", "--timeout=120s", "deployment/prometheus"); err != nil {
		return err
	}
	return Until(ctx, func(ctx context.Context) error {
		answer, err := c.Query(ctx, `count(up == 1)`)
		if err == nil && !strings.Contains(answer, fmt.Sprintf(`,"%d"]`, len(targets))) {
			err = fmt.Errorf("prometheus scrapes %s, want %d", answer, len(targets))
		}
		return err
	})
}

// Query returns what the Prometheus answers, in JSON.
func (c *Cluster) Query(ctx context.Context, query string) (string, error) {
	return c.Kubectl(ctx, "", "get", "--raw", "/api/v1/namespaces/"+TestNamespace+"/services/prometheus:9090/proxy/api/v1/query?query="+url.QueryEscape(query))
}

// Metrics returns those of a pod of Scriptorium.
func (c *Cluster) Metrics(ctx context.Context, pod string, port int) (string, error) {
	return c.Kubectl(ctx, "", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/metrics", SystemNamespace, pod, port))
}
