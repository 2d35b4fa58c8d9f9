package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

// environment says in a sentence what the figures depend on.
func (m *measurement) environment(ctx context.Context) (string, error) {
	nodes, err := m.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	info := nodes.Items[0].Status.NodeInfo
	sync, err := m.syncFrequency(ctx, nodes.Items[0].Name)
	if err != nil {
		return "", err
	}
	skew, err := m.worstSkew(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d nodes, Kubernetes %s (syncFrequency %s, %s), %s on %s, from a machine with %d CPUs. The clocks differ by %s",
		len(nodes.Items), info.KubeletVersion, sync.Frequency, sync.Detection, info.OSImage, info.Architecture, runtime.NumCPU(), skew), nil
}

type kubeletSync struct {
	Frequency string `json:"syncFrequency"`
	Detection string `json:"configMapAndSecretChangeDetectionStrategy"`
}

// syncFrequency asks a node's kubelet what it is set to.
func (m *measurement) syncFrequency(ctx context.Context, node string) (kubeletSync, error) {
	raw, err := m.cluster.Client.CoreV1().RESTClient().Get().
		Resource("nodes").Name(node).SubResource("proxy").Suffix("configz").DoRaw(ctx)
	if err != nil {
		return kubeletSync{}, fmt.Errorf("ask the kubelet of %s for its settings: %w", node, err)
	}
	var answer struct {
		Config kubeletSync `json:"kubeletconfig"`
	}
	return answer.Config, json.Unmarshal(raw, &answer)
}

// worstSkew says how far the nodes' clocks are from this machine's. What is measured
// begins by the one and ends by the other.
func (m *measurement) worstSkew(ctx context.Context) (string, error) {
	var worst, sure time.Duration
	for _, g := range m.gateways() {
		ahead, within, err := m.cluster.Skew(ctx, g)
		if err != nil {
			return "", err
		}
		if ahead.Abs() >= worst {
			worst, sure = ahead.Abs(), within
		}
	}
	if worst <= sure {
		return "less than the measurement can show (" + short(sure) + ")", nil
	}
	return fmt.Sprintf("up to %s (± %s)", short(worst), short(sure)), nil
}

// gateways returns those that are followed, one for each node.
func (m *measurement) gateways() []kube.Gateway {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	var one []kube.Gateway
	for _, g := range m.followed {
		if !seen[g.Node] {
			seen[g.Node] = true
			one = append(one, g)
		}
	}
	return one
}

const (
	tableBegins = "<!-- measured -->\n"
	tableEnds   = "<!-- /measured -->\n"
)

// report prints the table, and writes it and the data to where they are wanted.
func (m *measurement) report(environment string) error {
	text := fmt.Sprintf("\nMeasured on %s.\n\n%s\n%s\n", environment, table(m.samples), verdict(m.samples))
	if len(m.missed) > 0 {
		text += fmt.Sprintf("%d changes did not come through and are not in the figures:\n\n- %s\n\n", len(m.missed), strings.Join(m.missed, "\n- "))
	}
	fmt.Print(text)
	if m.opts.write != "" {
		if err := m.writeFiles(text); err != nil {
			return err
		}
	}
	if len(m.missed) > 0 {
		return fmt.Errorf("%d changes did not come through", len(m.missed))
	}
	return nil
}

func (m *measurement) writeFiles(text string) error {
	page, err := os.ReadFile(m.opts.write)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), tableBegins)
	_, after, closed := strings.Cut(rest, tableEnds)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q to write between", m.opts.write, strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	if err := os.WriteFile(m.opts.write, []byte(before+tableBegins+text+tableEnds+after), 0o644); err != nil {
		return err
	}
	data, err := os.Create(strings.TrimSuffix(m.opts.write, filepath.Ext(m.opts.write)) + ".csv")
	if err != nil {
		return err
	}
	if err := writeData(data, m.samples); err != nil {
		_ = data.Close()
		return err
	}
	return data.Close()
}
