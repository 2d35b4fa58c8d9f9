package suite_test

import (
	"cmp"
	"fmt"
	"slices"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
)

// sequences returns the reasons of the events about each object, in their order. A series
// stands for repeated events about an unchanged object: its reason is there as often as it
// says, twice at least.
func (w *world) sequences() map[types.UID][]string {
	w.t.Helper()
	var list eventsv1.EventList
	if err := env.Client.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int {
		return cmp.Or(a.EventTime.Compare(b.EventTime.Time), cmp.Compare(a.Name, b.Name)) // names end in the time, too
	})
	reasons := map[types.UID][]string{}
	for _, event := range list.Items {
		times := 1
		if event.Series != nil {
			times = int(event.Series.Count)
		}
		uid := event.Regarding.UID
		reasons[uid] = append(reasons[uid], slices.Repeat([]string{event.Reason}, times)...)
	}
	return reasons
}

// sequence returns the reasons of the events about the LuaScript, in their order.
func (w *world) sequence(ls *v1alpha1.LuaScript) []string {
	w.t.Helper()
	return w.sequences()[ls.UID]
}

// tells waits until there are as many events about the LuaScript as there are to be, and
// checks that they are these, each as often.
func (w *world) tells(ls *v1alpha1.LuaScript, want ...string) {
	w.t.Helper()
	var got []string
	w.eventually(fmt.Sprintf("events %v of %s", want, ls.Name), func() bool {
		got = w.sequence(ls)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: the events are %v, want %v", ls.Name, got, want)
	}
}
