package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

// The names of the ways, in the data.
const (
	wayConfigMap = "configmap"
	wayAnnotated = "configmap+annotation"
	wayLuaScript = "luascript"
)

// way brings a change to all nodes.
type way interface {
	name() string
	// change makes one and returns what came of it, once every node has it. The
	// content is what nodes are to show then.
	change(ctx context.Context, content string) (sample, error)
}

// sample is a change: how long after its first request was sent things were so.
type sample struct {
	way       string
	started   time.Time
	answered  time.Duration            // the API server had answered the last request
	nodes     map[string]time.Duration // the node showed it
	converged time.Duration            // Converged was seen by a watch; LuaScripts only
}

func (s sample) on(nodes map[string]time.Time) sample {
	s.nodes = make(map[string]time.Duration, len(nodes))
	for node, at := range nodes {
		s.nodes[node] = at.Sub(s.started)
	}
	return s
}

// configMapWay changes a ConfigMap that a pod on each node has as a volume.
type configMapWay struct {
	cluster  *kube.Cluster
	board    *board
	gateways kube.Gateways
	pods     []kube.Gateway
	// annotate makes each kubelet look at once, by a change of its pod's annotations.
	annotate bool
}

// newConfigMapWay makes the ConfigMap and the pods, and follows what they see.
func newConfigMapWay(ctx context.Context, m *measurement, name string, annotate bool) (*configMapWay, error) {
	w := &configMapWay{
		cluster: m.cluster, board: m.board, annotate: annotate,
		gateways: kube.Gateways{Namespace: kube.TestNamespace, Name: name, ConfigMap: name},
	}
	_, err := m.cluster.Client.CoreV1().ConfigMaps(kube.TestNamespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"content": "before"},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if err := m.cluster.StartGateways(ctx, m.images, w.gateways); err != nil {
		return nil, err
	}
	w.pods, err = m.cluster.AwaitGateways(ctx, w.gateways)
	if err != nil {
		return nil, err
	}
	m.follow(ctx, w.pods)
	return w, nil
}

func (w *configMapWay) name() string {
	if w.annotate {
		return wayAnnotated
	}
	return wayConfigMap
}

func (w *configMapWay) change(ctx context.Context, content string) (sample, error) {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"content": content}})
	if err != nil {
		return sample{}, err
	}
	s := sample{way: w.name(), started: time.Now()}
	_, err = w.cluster.Client.CoreV1().ConfigMaps(kube.TestNamespace).
		Patch(ctx, w.gateways.ConfigMap, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return s, err
	}
	if w.annotate {
		if err := w.touchPods(ctx, content); err != nil {
			return s, err
		}
	}
	s.answered = time.Since(s.started)
	seen, err := w.board.await(ctx, content, len(w.pods))
	return s.on(seen), err
}

// touchPods changes an annotation of all pods at the same time.
func (w *configMapWay) touchPods(ctx context.Context, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e.scriptorium.dev/touched":%q}}}`, value)
	errs := make([]error, len(w.pods))
	var running sync.WaitGroup
	for i, pod := range w.pods {
		running.Go(func() {
			_, errs[i] = w.cluster.Client.CoreV1().Pods(pod.Namespace).
				Patch(ctx, pod.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
		})
	}
	running.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
