package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/scriptorium-dev/scriptorium/e2e/kube"
)

var luaScripts = schema.GroupVersionResource{Group: "scriptorium.dev", Version: "v1alpha1", Resource: "luascripts"}

// luaScriptWay changes a LuaScript that a gateway on each node calls.
type luaScriptWay struct {
	board     *board
	pods      []kube.Gateway
	scripts   dynamic.ResourceInterface
	script    string // its name
	converged *board // of generations, as the watch sees them
}

const tenant = "e2e"

// newLuaScriptWay makes tenant, script and gateways, and follows what these see and
// what the LuaScript's status says.
func newLuaScriptWay(ctx context.Context, m *measurement) (*luaScriptWay, error) {
	w := &luaScriptWay{
		board: m.board, script: "latency", converged: newBoard(),
		scripts: m.cluster.Dynamic.Resource(luaScripts).Namespace(kube.TestNamespace),
	}
	err := m.cluster.Apply(ctx, fmt.Sprintf(`
apiVersion: scriptorium.dev/v1alpha1
kind: ScriptTenant
metadata: {name: %s}
spec: {namespaces: [%s]}
`, tenant, kube.TestNamespace))
	if err != nil {
		return nil, err
	}
	g := kube.Gateways{
		Namespace: kube.TestNamespace, Name: "caller", Scripts: []string{tenant + "/" + w.script},
		// The calls are not to slow down the change. No two changes have the same content,
		// so that nobody misses the version.
		Protocol: kube.RESP, Interval: 2 * time.Millisecond,
	}
	if err := m.cluster.StartGateways(ctx, m.images, g); err != nil {
		return nil, err
	}
	if w.pods, err = m.cluster.AwaitGateways(ctx, g); err != nil {
		return nil, err
	}
	m.follow(ctx, w.pods)
	m.running.Go(func() { m.fail(w.watch(ctx)) })
	return w, nil
}

func (w *luaScriptWay) name() string { return wayLuaScript }

func (w *luaScriptWay) change(ctx context.Context, content string) (sample, error) {
	patch, err := json.Marshal(map[string]any{
		"apiVersion": luaScripts.GroupVersion().String(),
		"kind":       "LuaScript",
		"metadata":   map[string]any{"name": w.script},
		"spec": map[string]any{
			"tenantId": tenant,
			"source":   fmt.Sprintf("function handle(request)\n  return %q\nend\n", content),
		},
	})
	if err != nil {
		return sample{}, err
	}
	s := sample{way: w.name(), started: time.Now()}
	applied, err := w.scripts.Patch(ctx, w.script, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: "e2e-latency"})
	if err != nil {
		return s, err
	}
	s.answered = time.Since(s.started)
	var running sync.WaitGroup
	var converged map[string]time.Time
	var notConverged error
	running.Go(func() {
		converged, notConverged = w.converged.await(ctx, strconv.FormatInt(applied.GetGeneration(), 10), 1)
	})
	seen, err := w.board.await(ctx, content, len(w.pods))
	running.Wait()
	s = s.on(seen)
	if err != nil {
		return s, err
	}
	if notConverged != nil {
		return s, fmt.Errorf("generation %d is not Converged: %w", applied.GetGeneration(), notConverged)
	}
	s.converged = converged[w.script].Sub(s.started)
	return s, nil
}

// watch notes when each generation was first seen to be converged, until ctx is done or
// watching fails; it always returns an error.
func (w *luaScriptWay) watch(ctx context.Context) error {
	for ctx.Err() == nil { // again, since the API server ends a watch after a while
		watch, err := w.scripts.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.script})
		if err != nil {
			return fmt.Errorf("watch the LuaScript: %w", err)
		}
		for event := range watch.ResultChan() {
			at := time.Now()
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			if generation, ok := convergedGeneration(object); ok {
				w.converged.saw(w.script, strconv.FormatInt(generation, 10), at)
			}
		}
		watch.Stop()
	}
	return context.Cause(ctx)
}

// convergedGeneration returns the generation that the condition Converged is about, and
// whether it is true.
func convergedGeneration(object *unstructured.Unstructured) (int64, bool) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return 0, false
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["type"] != "Converged" || condition["status"] != "True" {
			continue
		}
		if generation, ok := condition["observedGeneration"].(int64); ok {
			return generation, true
		}
		generation, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		return generation, found && err == nil
	}
	return 0, false
}
