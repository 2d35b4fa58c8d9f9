package operatord

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// fleetMark is the ConfigMap that notes, under fleetKey, which fleet was founded. With it,
// `registryd init` founds no fleet, and registries serve no other: an etcd that lost its
// data is not taken for a new fleet.
const (
	fleetMark = "scriptorium-fleet"
	fleetKey  = "id"
)

// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",namespace=scriptorium-system,resources=configmaps,resourceNames=scriptorium-fleet,verbs=get

// The operator tries to write the mark every markRetry until it is there, and looks for it
// every markCheck: whoever founds a new fleet removes it.
const (
	markRetry = time.Second
	markCheck = time.Minute
)

// markFleet writes the mark when the registry serves a fleet, unless it is there.
func (o *Operator) markFleet(namespace string) manager.RunnableFunc {
	return func(ctx context.Context) error {
		for {
			pause := markCheck
			if err := o.mark(ctx, namespace); err != nil {
				o.log.Debug("the fleet is not noted yet", "configmap", fleetMark, "error", err)
				pause = markRetry
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func (o *Operator) mark(ctx context.Context, namespace string) error {
	var found corev1.ConfigMap
	err := o.manager.GetAPIReader().Get(ctx, client.ObjectKey{Namespace: namespace, Name: fleetMark}, &found)
	if !apierrors.IsNotFound(err) {
		return err
	}
	fleet, err := o.registry.Fleet(ctx)
	if err != nil {
		return err
	}
	made := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleetMark, Labels: map[string]string{"app.kubernetes.io/part-of": "scriptorium"}},
		Data:       map[string]string{fleetKey: fleet},
	}
	if err := o.manager.GetClient().Create(ctx, made); err != nil {
		return err // also if another operator was faster: then it is there
	}
	o.log.Info("noted the fleet that was founded", "configmap", fleetMark, "fleet", fleet)
	return nil
}
