package validate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestTheAPIServerTakesEverything applies each object as a dry run: it is decoded,
// defaulted and validated by the real thing, and a field that is not known is an error.
func TestTheAPIServerTakesEverything(t *testing.T) {
	// Not the Prometheus operator's own, which are 40,000 lines.
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Scheme: env.Client.Scheme(), Paths: []string{"testdata/servicemonitors.yaml"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	makeNamespace(t, namespace, nil)
	for _, way := range renderings(t) {
		t.Run(way.name, func(t *testing.T) {
			for _, o := range parse(t, way.make(t)) {
				if err := apply(t, o); err != nil {
					t.Errorf("%s: %v", title(o), err)
				}
			}
		})
	}
}

// TestWhatIsNotKnownIsRefused: that the test above would see a typing error.
func TestWhatIsNotKnownIsRefused(t *testing.T) {
	makeNamespace(t, namespace, nil)
	for _, o := range parse(t, overlay(kustomize+"/try")(t)) {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		o.Object["spec"].(map[string]any)["updateStrategie"] = "x"
		if err := apply(t, o); err == nil || !strings.Contains(err.Error(), "updateStrategie") {
			t.Errorf("%v, want a refusal of updateStrategie", err)
		}
	}
}

// apply applies an object on the server, as a dry run.
func apply(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	body, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return env.Client.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.ApplyPatchType, body),
		client.DryRunAll, client.ForceOwnership, client.FieldOwner("validate"), client.FieldValidation(metav1.FieldValidationStrict))
}

// TestPodSecurity makes each pod, as a dry run, where the level restricted is enforced.
// The agents' alone is refused, for what it is documented for and nothing else.
func TestPodSecurity(t *testing.T) {
	restricted := env.Namespace(t, "restricted", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	for _, way := range renderings(t) {
		t.Run(way.name, func(t *testing.T) {
			for _, p := range pods(t, parse(t, way.make(t))) {
				err := create(t, restricted, p.spec)
				if p.of != "DaemonSet/scriptorium-agent" {
					if err != nil {
						t.Errorf("%s is not restricted: %v", p.of, err)
					}
					continue
				}
				if err == nil || !strings.Contains(err.Error(), "hostPath") {
					t.Errorf("%s: %v, want a refusal of hostPath", p.of, err)
				}
				if err := create(t, restricted, withoutTheNode(p.spec)); err != nil {
					t.Errorf("%s without the node's folders is not restricted: %v", p.of, err)
				}
			}
		})
	}
}

// withoutTheNode is the agent's pod without the node's folders, and without what makes
// them the agent's: what is left has to be as restricted as the others.
func withoutTheNode(spec corev1.PodSpec) corev1.PodSpec {
	s := *spec.DeepCopy()
	s.InitContainers = nil
	for i := range s.Volumes {
		if s.Volumes[i].HostPath != nil {
			s.Volumes[i].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	if s.SecurityContext != nil {
		s.SecurityContext.SELinuxOptions = nil
	}
	return s
}

// create makes a pod as a dry run.
func create(t *testing.T, namespace string, spec corev1.PodSpec) error {
	t.Helper()
	spec = *spec.DeepCopy()
	spec.ServiceAccountName, spec.PriorityClassName = "", "" // neither is there
	off := false
	spec.AutomountServiceAccountToken = &off
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	makeServiceAccount(t, namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}, Spec: spec}
	return env.Client.Create(t.Context(), pod, client.DryRunAll)
}

func makeNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if err := env.Client.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// makeServiceAccount makes what a controller would.
func makeServiceAccount(t *testing.T, namespace string) {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	if err := env.Client.Create(t.Context(), sa); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// into converts an object, and refuses fields that the type has not.
func into[T any](t *testing.T, object map[string]any) T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &typed, true); err != nil {
		t.Fatal(err)
	}
	return typed
}
