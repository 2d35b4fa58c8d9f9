package registryd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// keysInterval is how often a replica looks at the keys that others sign with.
const keysInterval = 2 * time.Second

// keys are what the replicas of the registry sign with. Agents may trust one key alone, so all
// replicas have the same one, but for the time in which it is replaced.
type keys struct {
	store interface {
		Candidates(ctx context.Context) ([]string, error)
	}
	own    string // "" signs nothing
	others atomic.Pointer[[]string]
}

// run keeps them current until ctx is done. While etcd does not answer, what it said last holds.
func (k *keys) run(ctx context.Context) {
	every(ctx, keysInterval, func() {
		all, err := k.store.Candidates(ctx)
		if err != nil {
			return
		}
		others := slices.DeleteFunc(all, func(id string) bool { return id == k.own || id == "" })
		slices.Sort(others)
		others = slices.Compact(others)
		k.others.Store(&others)
	})
}

// check says which replicas sign with another key; "" if none does.
func (k *keys) check() string {
	others := k.others.Load()
	if k.own == "" || others == nil || len(*others) == 0 {
		return ""
	}
	return fmt.Sprintf("this replica signs with the key %s, and others with %s: give all replicas the same --signing-key", k.own, strings.Join(*others, ", "))
}

func (k *keys) register(r prometheus.Registerer) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "other_signing_keys",
		Help: "Keys that other replicas sign with and this one does not: 0, except while the key is replaced.",
	}, func() float64 {
		if others := k.others.Load(); others != nil {
			return float64(len(*others))
		}
		return 0
	}))
}
