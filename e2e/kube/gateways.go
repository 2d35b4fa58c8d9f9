package kube

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

//go:embed gateways.yaml
var gatewaysYAML string

var gatewaysTemplate = template.Must(template.New("gateways").Parse(gatewaysYAML))

// The protocols of calls. GRPC tells the version of an answer; RESP does not, and costs
// a node's processors less. HTTP asks a real gateway, which asks the agent.
const (
	GRPC = "grpc"
	RESP = "resp"
	HTTP = "http"
)

// Gateways are gateway pods, one on each node.
type Gateways struct {
	Namespace string
	Name      string
	Image     string        // set by StartGateways
	Protocol  string        // of calls: GRPC unless set, RESP, or HTTP
	Callers   int           // of each script at a time; 1 unless set
	Interval  time.Duration // of a caller, between two calls; 2 ms unless set
	Scripts   []string
	ConfigMap string // whose key "content" they watch as a file; none if empty
	// Caddyfile is the ConfigMap whose key "Caddyfile" configures a Caddy in each pod, in front of the
	// applications stable and canary, for HTTP.
	Caddyfile string
	Caddy     string // its image, set by StartGateways
}

// Gateway is one such pod.
type Gateway struct{ Namespace, Pod, Node string }

// StartGateways makes the pods. They may not run yet when it returns.
func (c *Cluster) StartGateways(ctx context.Context, images Images, g Gateways) error {
	g.Image, g.Caddy = images.ref(GatewayImage), images.ref(CaddyImage)
	manifest, err := g.manifest()
	if err != nil {
		return err
	}
	return c.Apply(ctx, manifest)
}

func (g Gateways) manifest() (string, error) {
	g.Protocol = cmp.Or(g.Protocol, GRPC)
	g.Callers = max(g.Callers, 1)
	g.Interval = cmp.Or(g.Interval, 2*time.Millisecond)
	var manifest strings.Builder
	err := gatewaysTemplate.Execute(&manifest, g)
	return manifest.String(), err
}

// AwaitGateways waits until as many of the pods run as there are nodes to run on, and
// returns them in the order of the nodes.
func (c *Cluster) AwaitGateways(ctx context.Context, g Gateways) ([]Gateway, error) {
	if _, err := c.Kubectl(ctx, "", "-n", g.Namespace, "rollout", "status", "--timeout=180s", "daemonset/"+g.Name); err != nil {
		return nil, err
	}
	pods, err := c.Client.CoreV1().Pods(g.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + g.Name})
	if err != nil {
		return nil, err
	}
	var all []Gateway
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			all = append(all, Gateway{Namespace: g.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName})
		}
	}
	slices.SortFunc(all, func(a, b Gateway) int { return strings.Compare(a.Node, b.Node) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no node runs a pod of daemonset %s/%s", g.Namespace, g.Name)
	}
	return all, nil
}

const gatewayPort = 8090

// askTimeout is how long a gateway may take to answer. The way to it leads through the API
// server, whose connections to pods hang for minutes if the network between them changed,
// as it does when a node comes.
const askTimeout = 10 * time.Second

// Sights returns what the gateway saw, from sight number from on. It waits for one at
// most as long as wait says.
func (c *Cluster) Sights(ctx context.Context, g Gateway, from int, wait time.Duration) (sight.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+askTimeout)
	defer cancel()
	raw, err := c.Client.CoreV1().RESTClient().Get().
		Namespace(g.Namespace).Resource("pods").Name(net.JoinHostPort(g.Pod, strconv.Itoa(gatewayPort))).SubResource("proxy").
		Suffix("sights").Param("from", strconv.Itoa(from)).Param("wait", wait.String()).
		DoRaw(ctx)
	if err != nil {
		return sight.Report{}, fmt.Errorf("ask gateway %s on %s what it saw: %w", g.Pod, g.Node, err)
	}
	var report sight.Report
	if err := json.Unmarshal(raw, &report); err != nil {
		return sight.Report{}, fmt.Errorf("gateway %s on %s tells %q: %w", g.Pod, g.Node, raw, err)
	}
	return report, nil
}

// Follow tells each of the gateway's sights, in their order, until ctx is done or the
// gateway is gone; it always returns an error.
func (c *Cluster) Follow(ctx context.Context, g Gateway, tell func(sight.Sight)) error {
	for from := 0; ctx.Err() == nil; {
		report, err := c.Sights(ctx, g, from, 20*time.Second)
		if err != nil {
			return err
		}
		for _, s := range report.Sights {
			tell(s)
		}
		from = report.Next
	}
	return context.Cause(ctx)
}

// Skew returns how far the node's clock is from this machine's, and how sure that is:
// half of the time that it took to ask.
func (c *Cluster) Skew(ctx context.Context, g Gateway) (ahead, sure time.Duration, err error) {
	sure = time.Hour
	for range 10 {
		before := time.Now()
		report, err := c.Sights(ctx, g, 0, 0)
		if err != nil {
			return 0, 0, err
		}
		took := time.Since(before)
		if took/2 < sure {
			sure = took / 2
			ahead = report.Now.Sub(before.Add(took / 2))
		}
	}
	return ahead, sure, nil
}
