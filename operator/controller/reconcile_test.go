package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/fleet"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/script"
)

// world is a registry with one script at most, whose fleet is as fast as light, and a
// Kubernetes API with one LuaScript. Neither is a real one, since synctest's clock goes on
// only while nothing waits outside: operator/suite tests the same on real ones.
type world struct {
	t      *testing.T
	client client.Client
	events *recorder
	gather *prometheus.Registry
	*Reconciler

	release   *script.Release
	revision  script.Revision
	down      error
	publishes int
	// candidates: what is published from now on does not run at once.
	candidates bool
	failures   []registryclient.AgentFailure
	slow       bool // the agents have yet to activate it
	away       bool // the fleet is not known
	// answer, if it is set, answers a publish in place of apply.
	answer      func(registryclient.PublishRequest) (registryclient.Published, error)
	losesDelete bool // the answer to the next delete is lost

	setsHold int    // attempts to hold, or to lift a hold
	between  func() // what somebody else does before the next of them; or nil
	tooOld   bool   // the registry knows no holds
	ignores  bool   // the registry answers, and does nothing
}

// recorder sees to it that no note is lost: client-go counts an event as another of the same
// when all but the note is, and the first note stays.
type recorder struct {
	*events.FakeRecorder
	t     *testing.T
	notes map[string]string
}

func (r *recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	o, says := regarding.(client.Object), fmt.Sprintf(note, args...)
	same := strings.Join([]string{o.GetName(), string(o.GetUID()), o.GetResourceVersion(), eventtype, reason, action}, " ")
	if first, told := r.notes[same]; told && first != says {
		r.t.Errorf("%q is not told, but counted as %q", says, first)
	}
	r.notes[same] = says
	r.FakeRecorder.Eventf(regarding, related, eventtype, reason, action, note, args...)
}

var key = client.ObjectKey{Namespace: "default", Name: "route"}

func newWorld(t *testing.T, funcs interceptor.Funcs) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	tenant := &v1alpha1.ScriptTenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", Generation: 1}, Spec: v1alpha1.ScriptTenantSpec{Namespaces: []string{"*"}}}
	ls := &v1alpha1.LuaScript{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1, UID: "1"},
		Spec:       v1alpha1.LuaScriptSpec{TenantID: "acme", Source: new("function handle() end")},
	}
	w := &world{t: t, events: &recorder{events.NewFakeRecorder(1000), t, map[string]string{}}}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(tenant, ls).
		WithStatusSubresource(tenant, ls, &v1alpha1.Script{}).WithInterceptorFuncs(funcs).Build()
	w.restart(0)
	return w
}

// restart starts another operator, that knows nothing.
func (w *world) restart(wait time.Duration) {
	w.t.Helper()
	w.gather = prometheus.NewRegistry()
	m, err := newMetrics(w.gather)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Reconciler = &Reconciler{
		kind: kinds.LuaScript, client: w.client, events: w.events, registry: w, fleet: w, wait: wait,
		log: slog.New(slog.DiscardHandler), metrics: m, tracer: noop.Tracer{},
	}
}

func (w *world) Get(context.Context, script.Name) (script.Release, error) {
	switch {
	case w.down != nil:
		return script.Release{}, w.down
	case w.release == nil:
		return script.Release{}, script.Errorf(script.NotFound, "name", "no such script")
	}
	return *w.release, nil
}

func (w *world) Publish(_ context.Context, p registryclient.PublishRequest) (registryclient.Published, error) {
	switch {
	case w.down != nil:
		return registryclient.Published{}, w.down
	case w.answer != nil:
		return w.answer(p)
	}
	return w.apply(p), nil
}

func (w *world) apply(p registryclient.PublishRequest) registryclient.Published {
	w.publishes++
	w.revision++
	v := script.Version{Number: uint64(w.revision), Digest: script.DigestOf(p.Source), Engine: script.EngineLua, Entrypoint: *p.Entrypoint}
	before := w.release
	if before != nil && before.Active.SameProgram(v) {
		v = before.Active
	}
	w.release = &script.Release{
		Name: p.Name, Revision: w.revision, Active: v, Latest: v.Number, Retained: []script.Version{v},
		Enabled: *p.Enabled, Settings: *p.Settings, Owner: p.Owner,
	}
	if before != nil && before.Hold != nil { // it is stored
		w.release.Active, w.release.Retained = before.Active, []script.Version{before.Active, v}
		w.release.Pinned, w.release.Hold = true, before.Hold
	}
	if w.candidates {
		w.release.Active, w.release.Retained = before.Active, []script.Version{before.Active, v}
		w.release.Candidate = &script.Candidate{Version: v, Spec: p.Settings.Spec, Attempt: uint64(w.revision), Since: time.Now()}
	}
	return registryclient.Published{Release: *w.release, Changed: true}
}

func (w *world) Delete(context.Context, script.Name, registryclient.Write) (script.Release, error) {
	if w.down != nil {
		return script.Release{}, w.down
	}
	w.release = nil
	if w.losesDelete {
		w.losesDelete = false
		return script.Release{}, script.Errorf(script.Timeout, "", "the registry took too long")
	}
	return script.Release{}, nil
}

func (w *world) Subscribe(func(fleet.Changed)) {}

func (w *world) State() fleet.State {
	if w.away {
		return fleet.State{Err: errDown}
	}
	return fleet.State{Live: true, Session: 1, Head: w.revision}
}

func (w *world) Status(script.Name) (registryclient.ScriptStatus, bool) {
	if w.release == nil || w.away {
		return registryclient.ScriptStatus{}, false
	}
	s := registryclient.ScriptStatus{Release: *w.release, Desired: 1, Failed: len(w.failures), Failures: w.failures}
	switch {
	case w.release.Candidate != nil:
		s.Trials = &registryclient.Trials{}
	case !w.slow:
		s.Active, s.Converged = 1, true
	}
	return s, true
}

// force is somebody else's write past the owner.
func (w *world) force() {
	w.revision++
	w.release = new(*w.release)
	w.release.Revision, w.release.Enabled = w.revision, !w.release.Enabled
}

// reconcile reconciles once, and returns the LuaScript; nil if it is gone.
func (w *world) reconcile() *v1alpha1.LuaScript {
	w.t.Helper()
	if _, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	ls := &v1alpha1.LuaScript{}
	if err := w.client.Get(w.t.Context(), key, ls); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	} else if err != nil {
		return nil
	}
	return ls
}

// pause reconciles once, and returns when the next reconciliation is due.
func (w *world) pause() time.Duration {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// pass reconciles every now and then for so long, or until the LuaScript is gone.
func (w *world) pass(d time.Duration) (ls *v1alpha1.LuaScript) {
	w.t.Helper()
	step := max(100*time.Millisecond, d/200)
	for range d / step {
		<-time.After(step)
		if ls = w.reconcile(); ls == nil {
			break
		}
	}
	return ls
}

func (w *world) update(o client.Object) {
	w.t.Helper()
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// configure sets a ScriptTenant's conditions.
func (w *world) configure(conditions ...metav1.Condition) {
	w.t.Helper()
	st := &v1alpha1.ScriptTenant{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "acme"}, st); err != nil {
		w.t.Fatal(err)
	}
	st.Status.Conditions = conditions
	if err := w.client.Status().Update(w.t.Context(), st); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ready() {
	w.t.Helper()
	w.configure(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: 1})
}

// told returns the reasons of the events since it was asked last.
func (w *world) told() (reasons []string) {
	for {
		select {
		case event := <-w.events.Events:
			reasons = append(reasons, strings.Fields(event)[1])
		default:
			return reasons
		}
	}
}

var errDown = script.Errorf(script.Unavailable, "", "the registry is away")

// TestFirstPublishWaitsForTheTenant: nothing runs without the bounds that the tenant is to
// have; what runs goes on when they are wrong later.
func TestFirstPublishWaitsForTheTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		invalid := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Invalid", Message: "spec.memory: too little", ObservedGeneration: 1}
		for _, conditions := range [][]metav1.Condition{nil, {invalid}} {
			w.configure(conditions...)
			ls := w.pass(2 * time.Second)
			c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionPublished)
			if w.publishes > 0 || c.Status != metav1.ConditionFalse || c.Reason != "TenantNotReady" || !strings.Contains(c.Message, "spec.tenantId: the settings of the ScriptTenant acme") {
				t.Fatalf("%d publishes, %+v", w.publishes, c)
			}
			if !meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionReconciling) || len(conditions) > 0 && !strings.Contains(c.Message, invalid.Message) {
				t.Errorf("%+v", ls.Status)
			}
		}
		w.ready()
		ls := w.pass(200 * time.Millisecond)
		if w.publishes != 1 || !meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionConverged) {
			t.Fatalf("%d publishes, %+v", w.publishes, ls.Status)
		}
		w.configure(invalid)
		ls.Generation, ls.Spec.Source = 2, new("function handle() return 2 end")
		w.update(ls)
		if w.reconcile(); w.publishes != 2 {
			t.Error("a script that was published is held up by its tenant")
		}
		w.release = nil // somebody deleted it
		w.revision++
		if w.reconcile(); w.publishes != 3 {
			t.Error("a script that was published is not put right")
		}
	})
}

// TestFinalizerIsPutBack: who replaces the LuaScript takes the finalizer away, and its
// script must not stay behind for that.
func TestFinalizerIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		ls.Finalizers = []string{"example.com/theirs"}
		w.update(ls)
		if ls = w.reconcile(); !slices.Contains(ls.Finalizers, v1alpha1.Finalizer) || len(ls.Finalizers) != 2 {
			t.Fatalf("finalizers %q", ls.Finalizers)
		}
		ls.Finalizers = []string{v1alpha1.Finalizer}
		w.update(ls)
		if err := w.client.Delete(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		if ls = w.reconcile(); ls != nil || w.release != nil {
			t.Errorf("it stayed behind: %+v", w.release)
		}
	})
}

// TestDeleteWait: it counts from the first attempt that failed, not from when nobody
// tried; and an operator that is restarted does not begin anew.
func TestDeleteWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 10 * time.Minute
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		w.told()
		w.down = errDown
		ls.Generation = 2 // as the API server does
		w.update(ls)
		if err := w.client.Delete(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour) // no operator
		w.restart(wait)
		if ls = w.pass(wait - 2*time.Second); ls == nil {
			t.Fatal("it was given up, and had not been tried for long enough")
		}
		if ls = w.pass(4 * time.Second); ls != nil || !slices.Equal(w.told(), []string{"Abandoned"}) {
			t.Fatalf("it was not given up: %+v", ls)
		}

		w = newWorld(t, interceptor.Funcs{})
		w.ready()
		ls = w.pass(time.Second)
		w.down = errDown
		ls.Generation = 2
		w.update(ls)
		if err := w.client.Delete(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		w.restart(wait)
		w.pass(wait / 2)
		w.restart(wait)
		if ls = w.pass(wait/2 - 3*time.Second); ls == nil {
			t.Fatal("it was given up too soon")
		}
		if ls = w.pass(6 * time.Second); ls != nil {
			t.Fatal("it was not given up: the wait began anew with the operator")
		}
	})
}

// TestRestoresAreDamped: what others change is put right at once; two that never agree
// do not go on as fast as they can.
func TestRestoresAreDamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		w.pass(time.Second)
		w.told()
		for n := range freeRestores {
			w.force()
			if w.reconcile(); w.publishes != n+2 {
				t.Fatalf("not put right at once: %d publishes", w.publishes)
			}
		}
		before := w.publishes
		for range 600 {
			if w.release.Enabled {
				w.force()
			}
			ls := w.pass(100 * time.Millisecond)
			if !w.release.Enabled && meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionConverged) && ls.Status.Revision == int64(w.revision) {
				t.Fatalf("said to have converged, and it is not as it should be: %+v", ls.Status)
			}
		}
		if n := w.publishes - before; n < 3 || n > 6 {
			t.Errorf("put right %d times in a minute", n)
		}
		restored, reasons := 0, w.told()
		for _, reason := range reasons {
			if reason == "Restored" {
				restored++
			}
		}
		if all := w.publishes - 1; restored != all || len(reasons) > 2*all+2 {
			t.Errorf("put right %d times, and told so %d times: %v", all, restored, reasons)
		}
		ls := w.pass(2 * time.Second)
		if c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionPublished); c.Reason != "Contended" || !strings.Contains(c.Message, "scriptctl history") {
			t.Errorf("%+v", c)
		}
		before = w.publishes
		ls.Generation, ls.Spec.Source = 2, new("function handle() return 2 end")
		w.update(ls)
		if w.reconcile(); w.publishes != before+1 {
			t.Error("an edit waits for it")
		}
	})
}

// TestDeletedIsSaidOnce: when the LuaScript goes, not before.
func TestDeletedIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := false
		w := newWorld(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if refuse {
				return errors.New("the API server does not")
			}
			return c.Patch(ctx, o, p, opts...)
		}})
		w.ready()
		ls := w.pass(time.Second)
		w.told()
		if err := w.client.Delete(t.Context(), ls); err != nil {
			t.Fatal(err)
		}
		refuse = true
		for range 3 {
			if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err == nil {
				t.Fatal("it went")
			}
		}
		if reasons := w.told(); len(reasons) > 0 {
			t.Errorf("the events are %q, and it is there", reasons)
		}
		refuse = false
		if ls = w.reconcile(); ls != nil || !slices.Equal(w.told(), []string{"Deleted"}) {
			t.Errorf("%+v", ls)
		}
	})
}

// TestNothingChanged: an edit that changes nothing of the script announces nothing.
func TestNothingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := w.pass(time.Second)
		if reasons := w.told(); !slices.Equal(reasons, []string{"Published", "Converged"}) {
			t.Errorf("created: %q", reasons)
		}
		ls.Generation, ls.Spec.Enabled = 2, new(true)
		w.update(ls)
		ls = w.pass(5 * time.Second)
		if reasons := w.told(); len(reasons) > 0 || w.publishes != 1 {
			t.Errorf("%d publishes, and the events are %q", w.publishes, reasons)
		}
		if c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionConverged); c.Status != metav1.ConditionTrue || c.ObservedGeneration != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// samples returns how often, and how long, the time to convergence was measured.
func (w *world) samples() (count uint64, sum float64) {
	w.t.Helper()
	families, err := w.gather.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "scriptorium_operator_converged_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			count, sum = h.GetSampleCount(), h.GetSampleSum()
		}
	}
	return count, sum
}

// TestMeasures: the time to convergence counts from when the spec arrived, and not while
// somebody has to change it.
func TestMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		ls := &v1alpha1.LuaScript{}
		if err := w.client.Get(t.Context(), key, ls); err != nil {
			t.Fatal(err)
		}
		w.arrivals.saw(ls)
		<-time.After(3 * time.Second) // in the queue
		w.arrivals.saw(ls)            // again: the same spec
		ls = w.pass(time.Second)
		if n, sum := w.samples(); n != 1 || sum < 3 || sum > 4 {
			t.Errorf("%d samples of %v s", n, sum)
		}

		w.down = script.Errorf(script.Denied, "", "no")
		ls.Generation, ls.Spec.Source = 2, new("function handle() return 2 end")
		w.update(ls)
		w.arrivals.saw(ls)
		if ls = w.pass(time.Second); !meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionStalled) {
			t.Errorf("%+v", ls.Status)
		}
		w.down = nil
		if ls = w.pass(3 * time.Minute); !meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionConverged) {
			t.Errorf("%+v", ls.Status)
		}
		if n, _ := w.samples(); n != 1 {
			t.Errorf("%d samples: one was stalled", n)
		}
	})
}
