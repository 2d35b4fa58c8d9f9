// Package suite tests the operator whole, on real parts: a Kubernetes API, a registry
// with its etcd and NATS, and agents that run the scripts.
package suite_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/local"
	"github.com/scriptorium-dev/scriptorium/internal/operatord"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/testenv"
	"github.com/scriptorium-dev/scriptorium/script"
)

// patience is how long a test waits for what must come.
const patience = 90 * time.Second

// env is the Kubernetes API that all tests share, one after the other: the operator
// looks after all namespaces.
var env *testenv.Env

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // of what has no other
	os.Exit(testenv.Run(m, func(e *testenv.Env) { env = e }))
}

// world is a registry with agents, and an operator between it and the Kubernetes API.
type world struct {
	*local.Stack
	t         *testing.T
	log       *slog.Logger
	dir       string
	namespace string
	registry  *registryclient.Client
	agents    []*agentclient.Client
	operator  *running // nil while there is none
}

// running is an operator that runs.
type running struct {
	*operatord.Operator
	cancel context.CancelFunc
	ended  chan error // gets what Run returns
}

// leads reports whether the operator leads, or did.
func (r *running) leads() bool {
	select {
	case <-r.Leading():
		return true
	default:
		return false
	}
}

const tenant = "acme"

// start starts a world with so many agents, and a ScriptTenant that lets everybody.
func start(t *testing.T, agents int, change ...func(*operatord.Config)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "suite") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	stack, err := local.Start(t.Context(), dir, agents, log)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Stack: stack, t: t, log: log, dir: dir, namespace: env.Namespace(t, "suite", nil)}
	t.Cleanup(w.end)
	if w.registry, err = registryclient.Dial(w.RegistryTarget()); err != nil {
		t.Fatal(err)
	}
	for i := range agents {
		w.addClient(w.AgentDir(i + 1))
	}
	w.createTenant(tenant, "*")
	w.startOperator(change...)
	return w
}

func (w *world) addClient(dir string) {
	w.t.Helper()
	agent, err := agentclient.New("unix:" + filepath.Join(dir, "grpc.sock"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.agents = append(w.agents, agent)
}

func (w *world) createTenant(name string, namespaces ...string) {
	w.t.Helper()
	st := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ScriptTenantSpec{Namespaces: namespaces}}
	if err := env.Client.Create(w.t.Context(), st); err != nil {
		w.t.Fatal(err)
	}
}

// startOperator starts an operator as its command does.
func (w *world) startOperator(change ...func(*operatord.Config)) {
	w.t.Helper()
	w.operator = w.runOperator(change...)
}

// runOperator starts one beside that, which is not the world's to stop.
func (w *world) runOperator(change ...func(*operatord.Config)) *running {
	w.t.Helper()
	cfg := operatord.Config{
		Kube: rest.CopyConfig(env.Config), Registry: w.RegistryTarget(),
		DeleteWait: patience, Log: w.log,
	}
	cfg.Kube.QPS, cfg.Kube.Burst = 300, 600
	for _, f := range change {
		f(&cfg)
	}
	operator, err := operatord.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{operator, cancel, make(chan error, 1)}
	go func() { r.ended <- operator.Run(ctx) }()
	return r
}

// stopOperator stops the operator, as a new image does.
func (w *world) stopOperator() {
	if w.operator == nil {
		return
	}
	w.operator.cancel()
	if err := <-w.operator.ended; err != nil {
		w.t.Errorf("the operator: %v", err)
	}
	w.operator = nil
}

// end stops everything, and removes what is in the Kubernetes API.
func (w *world) end() {
	w.stopOperator()
	for _, agent := range w.agents {
		_ = agent.Close()
	}
	_ = w.registry.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		w.t.Errorf("stop the stack: %v", err)
	}
	var scripts v1alpha1.LuaScriptList
	var tenants v1alpha1.ScriptTenantList
	if err := env.Client.List(ctx, &scripts); err != nil {
		w.t.Error(err)
	}
	if err := env.Client.List(ctx, &tenants); err != nil {
		w.t.Error(err)
	}
	for i := range scripts.Items {
		w.remove(ctx, &scripts.Items[i])
	}
	for i := range tenants.Items {
		w.remove(ctx, &tenants.Items[i])
	}
}

// remove removes an object that nobody looks after anymore.
func (w *world) remove(ctx context.Context, object client.Object) {
	w.t.Helper()
	if err := env.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		w.t.Error(err)
	}
	if len(object.GetFinalizers()) == 0 {
		return
	}
	err := env.Client.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	if client.IgnoreNotFound(err) != nil {
		w.t.Error(err)
	}
}

// source answers with n.
func source(n int) *string { return new(fmt.Sprintf("function handle()\n  return %d\nend\n", n)) }

// patient limits leave a call time also on a busy machine.
func patient() *v1alpha1.Limits { return &v1alpha1.Limits{Timeout: new("10s")} }

// luaScript is a LuaScript whose every call is answered with n.
func (w *world) luaScript(name string, n int) *v1alpha1.LuaScript {
	return &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       v1alpha1.LuaScriptSpec{TenantID: tenant, Source: source(n), Limits: patient()},
	}
}

// create creates a LuaScript whose every call is answered with n.
func (w *world) create(name string, n int, change ...func(*v1alpha1.LuaScriptSpec)) *v1alpha1.LuaScript {
	w.t.Helper()
	ls := w.luaScript(name, n)
	for _, f := range change {
		f(&ls.Spec)
	}
	if err := env.Client.Create(w.t.Context(), ls); err != nil {
		w.t.Fatal(err)
	}
	return ls
}

// change changes the spec as kubectl apply does, and returns what is there then.
func (w *world) change(ls *v1alpha1.LuaScript, f func(*v1alpha1.LuaScriptSpec)) *v1alpha1.LuaScript {
	w.t.Helper()
	next := ls.DeepCopy()
	f(&next.Spec)
	if err := env.Client.Patch(w.t.Context(), next, client.MergeFrom(ls)); err != nil {
		w.t.Fatal(err)
	}
	return next
}

// await waits until a LuaScript is as wanted, and returns it; gone is for one that is
// not there.
func (w *world) await(ls *v1alpha1.LuaScript, what string, ok func(*v1alpha1.LuaScript) bool) *v1alpha1.LuaScript {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	var last *v1alpha1.LuaScript
	for ctx.Err() == nil {
		events, err := env.Client.Watch(ctx, &v1alpha1.LuaScriptList{}, client.InNamespace(ls.Namespace), client.MatchingFields{"metadata.name": ls.Name})
		if err != nil { // the API server restarts
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			continue
		}
		for event := range events.ResultChan() {
			got, isOne := event.Object.(*v1alpha1.LuaScript)
			if !isOne {
				break
			}
			if event.Type == watch.Deleted {
				got = nil
			}
			if last = got; ok(got) {
				events.Stop()
				return got
			}
		}
		events.Stop()
	}
	if last == nil {
		w.t.Fatalf("%s never: %s; it is gone", ls.Name, what)
	}
	w.t.Fatalf("%s never: %s; its status is %+v", ls.Name, what, last.Status)
	return nil
}

// is reports whether a condition of the LuaScript's spec, as it is now, has the status.
func is(ls *v1alpha1.LuaScript, kind string, status metav1.ConditionStatus) bool {
	if ls == nil {
		return false
	}
	c := meta.FindStatusCondition(ls.Status.Conditions, kind)
	return c != nil && c.Status == status && c.ObservedGeneration == ls.Generation && ls.Status.ObservedGeneration == ls.Generation
}

// message returns what a condition says.
func message(ls *v1alpha1.LuaScript, kind string) string {
	if c := meta.FindStatusCondition(ls.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// converged waits until what the spec says is on all agents.
func (w *world) converged(ls *v1alpha1.LuaScript) *v1alpha1.LuaScript {
	w.t.Helper()
	return w.await(ls, "converged", func(ls *v1alpha1.LuaScript) bool {
		return is(ls, v1alpha1.ConditionConverged, metav1.ConditionTrue) && is(ls, v1alpha1.ConditionReady, metav1.ConditionTrue)
	})
}

// stalled waits until the LuaScript is stalled with a message that has all the words.
func (w *world) stalled(ls *v1alpha1.LuaScript, words ...string) *v1alpha1.LuaScript {
	w.t.Helper()
	return w.await(ls, fmt.Sprintf("stalled saying %q", words), func(ls *v1alpha1.LuaScript) bool {
		if !is(ls, v1alpha1.ConditionStalled, metav1.ConditionTrue) {
			return false
		}
		for _, word := range words {
			if !strings.Contains(message(ls, v1alpha1.ConditionStalled), word) {
				return false
			}
		}
		return true
	})
}

// answers checks that each agent answers calls with n.
func (w *world) answers(name string, n int) {
	w.t.Helper()
	for i, agent := range w.agents {
		result, err := agent.Call(w.t.Context(), tenant+"/"+name)
		if err != nil {
			w.t.Errorf("agent-%d: %v", i+1, err)
		} else if got := string(result.Values[0]); got != fmt.Sprint(n) {
			w.t.Errorf("agent-%d answers %s, want %d", i+1, got, n)
		}
	}
}

// fails checks that each agent refuses to run the script.
func (w *world) fails(name string, kind script.Kind) {
	w.t.Helper()
	for i, agent := range w.agents {
		if _, err := agent.Call(w.t.Context(), tenant+"/"+name); script.KindOf(err) != kind {
			w.t.Errorf("agent-%d answers %v, want %s", i+1, err, kind)
		}
	}
}

// leaves waits until no agent has the script: its LuaScript does not wait for that.
func (w *world) leaves(name string) {
	w.t.Helper()
	w.eventually("no agent has "+name, func() bool {
		return !slices.ContainsFunc(w.agents, func(agent *agentclient.Client) bool {
			_, err := agent.Call(w.t.Context(), tenant+"/"+name)
			return script.KindOf(err) != script.NotFound
		})
	})
}

// release returns what the registry has.
func (w *world) release(name string) (script.Release, error) {
	return w.registry.Get(w.t.Context(), script.Name{Tenant: tenant, Script: name})
}

// told waits until there are events about the LuaScript with these reasons.
func (w *world) told(ls *v1alpha1.LuaScript, reasons ...string) {
	w.t.Helper()
	var seen map[string]string
	w.eventually(fmt.Sprintf("events %v of %s", reasons, ls.Name), func() bool {
		seen = w.events(ls)
		for _, reason := range reasons {
			if _, ok := seen[reason]; !ok {
				return false
			}
		}
		return true
	})
}

// events returns what the events about the LuaScript say, by their reasons.
func (w *world) events(ls *v1alpha1.LuaScript) map[string]string {
	w.t.Helper()
	var list eventsv1.EventList
	if err := env.Client.List(w.t.Context(), &list, client.InNamespace(ls.Namespace)); err != nil && !apierrors.IsServerTimeout(err) {
		w.t.Fatal(err)
	}
	notes := map[string]string{}
	for _, event := range list.Items {
		if event.Regarding.Name == ls.Name && event.Regarding.UID == ls.UID {
			notes[event.Reason] = event.Note
		}
	}
	return notes
}

// eventually polls until ok is true.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			w.t.Fatalf("never: %s", what)
		}
	}
}
