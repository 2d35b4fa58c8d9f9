package controller

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// hold adds the finalizer: before a script is published, so that none stays behind.
func (x *reconciliation) hold(ctx context.Context) error {
	if controllerutil.ContainsFinalizer(x.ls, v1alpha1.Finalizer) || x.m.held != "" && older(x.ls, x.m.held) {
		return nil
	}
	before := x.ls.DeepCopy()
	controllerutil.AddFinalizer(x.ls, v1alpha1.Finalizer)
	// The patch has all finalizers, so it must not undo what others did to them.
	err := x.client.Patch(ctx, x.ls, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return err
	}
	x.m.held = x.ls.ResourceVersion
	return nil
}

// letGo removes the finalizer: the LuaScript goes.
func (x *reconciliation) letGo(ctx context.Context) error {
	before := x.ls.DeepCopy()
	controllerutil.RemoveFinalizer(x.ls, v1alpha1.Finalizer)
	err := x.client.Patch(ctx, x.ls, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	x.m.gone = client.IgnoreNotFound(err) == nil
	return client.IgnoreNotFound(err)
}

// remove deletes the script, and lets the LuaScript go then, or when the wait for that is
// over.
func (x *reconciliation) remove(ctx context.Context) (time.Duration, error) {
	if x.m.gone || !controllerutil.ContainsFinalizer(x.ls, v1alpha1.Finalizer) {
		return 0, nil
	}
	if x.ls.Annotations[v1alpha1.AbandonAnnotation] == "true" {
		return 0, x.abandon(ctx, "the annotation "+v1alpha1.AbandonAnnotation+" says so")
	}
	m, session := x.m, x.facts.state.Session
	wait := m.retry.wait(x.ls.Generation, session, x.now)
	f := m.retry.fault
	if wait == 0 {
		f = x.delete(ctx)
	}
	if f == nil {
		return 0, x.letGo(ctx)
	}
	x.facts.fault = f
	if wait == 0 {
		wait = x.failed(f)
	}
	if x.wait > 0 {
		left := time.Until(x.ls.DeletionTimestamp.Add(x.wait))
		if left <= 0 {
			return 0, x.abandon(ctx, fmt.Sprintf("gave up after %v: %s", x.wait, f.message()))
		}
		wait = min(wait, left)
	}
	x.facts.release = m.own(x.owner)
	pause, err := x.report(ctx)
	return soonest(wait, pause), err
}

// delete removes the script from the registry, if it is the LuaScript's. It returns why it
// could not.
func (x *reconciliation) delete(ctx context.Context) *fault {
	if x.m.answer == nil {
		x.m.doubt() // a script that the fleet has yet to tell of must not stay behind
	}
	have, err := x.have(ctx)
	if err != nil {
		return faultOf(err)
	}
	if Decide(nil, x.owner, have).Kind == LetGo {
		return nil
	}
	_, err = x.registry.Delete(ctx, x.name, registryclient.Write{Author: spec.Author(x.owner), Owner: x.owner})
	x.metrics.asked("delete", err)
	if err != nil && script.KindOf(err) != script.NotFound {
		x.m.doubt()
		return faultOf(err)
	}
	x.note(eventDeleted, "Delete", "the script %s is gone from the registry", x.name)
	x.log.Info("deleted", "luascript", x.owner, "script", x.name)
	return nil
}

// abandon lets the LuaScript go without its script.
func (x *reconciliation) abandon(ctx context.Context, why string) error {
	x.warn(eventAbandoned, "Delete", "the script %s may still be in the registry and on the agents (%s): scriptctl delete --force removes it", x.name, why)
	x.log.Warn("a script is left in the registry", "luascript", x.owner, "script", x.name, "why", why)
	return x.letGo(ctx)
}
