package controller

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/script"
)

func (w *world) Source(context.Context, script.Ref) (script.Edition, error) {
	return script.Edition{}, script.Errorf(script.Unavailable, "", "no test asks for it")
}

// TestALibraryThatIsNotThereYet: of two LuaScripts that are applied together, the one that requires the other may come
// first: its condition says what is missing, and it is published when that is there.
func TestALibraryThatIsNotThereYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{})
		w.ready()
		w.answer = func(registryclient.PublishRequest) (registryclient.Published, error) {
			return registryclient.Published{}, script.Errorf(script.NotFound, "source", "there is no library acme/lib: publish it first")
		}
		ls := w.pass(2 * time.Second)
		c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionPublished)
		if c.Status != metav1.ConditionFalse || c.Reason != "LibraryNotFound" || !strings.Contains(c.Message, "there is no library acme/lib") {
			t.Errorf("%+v", c)
		}
		if meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionStalled) || !meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionReconciling) {
			t.Errorf("nobody has to change anything: %+v", ls.Status.Conditions)
		}
		w.answer = nil
		if ls = w.pass(time.Minute); w.publishes != 1 || !meta.IsStatusConditionTrue(ls.Status.Conditions, v1alpha1.ConditionConverged) {
			t.Errorf("%d publishes, %+v", w.publishes, ls.Status)
		}
	})
}
