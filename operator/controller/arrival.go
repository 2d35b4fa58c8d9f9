package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// arrivals keep when the API server's watch brought each object's latest spec: the
// time from there includes the wait in the queue. It is safe for concurrent use.
type arrivals struct {
	latest sync.Map // types.NamespacedName → arrival
}

type arrival struct {
	uid        types.UID
	generation int64
	at         time.Time
}

// watch is a predicate that lets everything pass, and takes note of it.
func (a *arrivals) watch() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { a.saw(e.Object); return true },
		UpdateFunc: func(e event.UpdateEvent) bool { a.saw(e.ObjectNew); return true },
		DeleteFunc: func(e event.DeleteEvent) bool {
			a.latest.Delete(client.ObjectKeyFromObject(e.Object))
			return true
		},
	}
}

func (a *arrivals) saw(o client.Object) {
	key := client.ObjectKeyFromObject(o)
	if a.of(o).IsZero() {
		a.latest.Store(key, arrival{o.GetUID(), o.GetGeneration(), time.Now()})
	}
}

// of returns when the spec that o has arrived; the zero time if that is not known.
func (a *arrivals) of(o client.Object) time.Time {
	found, ok := a.latest.Load(client.ObjectKeyFromObject(o))
	if !ok {
		return time.Time{}
	}
	latest := found.(arrival)
	if latest.uid != o.GetUID() || latest.generation != o.GetGeneration() {
		return time.Time{}
	}
	return latest.at
}
