package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// finalize adds the finalizer: before a script is published, so that none stays behind.
func (x *reconciliation) finalize(ctx context.Context) error {
	if controllerutil.ContainsFinalizer(x.ls, v1alpha1.Finalizer) || x.m.held != "" && older(x.ls, x.m.held) {
		return nil
	}
	before := x.ls.DeepCopy()
	controllerutil.AddFinalizer(x.ls, v1alpha1.Finalizer)
	// The patch has all finalizers, so it must not undo what others did to them.
	err := x.client.Patch(ctx, x.kind.Object(x.ls), client.MergeFromWithOptions(x.kind.Object(before), client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return errGone
	}
	if err != nil {
		return err
	}
	x.m.held = x.ls.ResourceVersion
	return nil
}

// errGone ends the reconciliation of an object that was deleted just now.
var errGone = errors.New("the object is gone")

// letGo removes the finalizer: the object goes, which farewell tells of. It is kept until
// the finalizer is known to be gone: the answer may get lost, and the event is all that is
// left.
func (x *reconciliation) letGo(ctx context.Context, farewell func()) error {
	x.m.farewell = farewell
	before := x.ls.DeepCopy()
	controllerutil.RemoveFinalizer(x.ls, v1alpha1.Finalizer)
	err := x.client.Patch(ctx, x.kind.Object(x.ls), client.MergeFromWithOptions(x.kind.Object(before), client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	x.m.gone = true
	x.m.sayFarewell()
	return nil
}

// remove deletes the script, and lets the object go then, or when the wait for that is
// over.
func (x *reconciliation) remove(ctx context.Context) (time.Duration, error) {
	m := x.m
	if m.gone || !controllerutil.ContainsFinalizer(x.ls, v1alpha1.Finalizer) {
		m.sayFarewell()
		return 0, nil
	}
	m.tellNews()
	if x.ls.Annotations[v1alpha1.AbandonAnnotation] == "true" {
		return 0, x.abandon(ctx, "the annotation "+v1alpha1.AbandonAnnotation+" says so")
	}
	wait := m.retry.wait(x.ls.Generation, x.facts.state.Session, x.now)
	f := m.retry.fault
	if left, bounded := x.left(); bounded && left <= 0 && f != nil {
		return 0, x.giveUp(ctx, f)
	}
	if wait == 0 {
		if f = x.delete(ctx); f == nil {
			return 0, x.letGoDeleted(ctx)
		}
		wait = x.failed(f)
		if m.stuck.IsZero() && !f.frozen() { // that the registry is frozen is no reason to give up
			m.stuck = x.now
		}
	}
	x.facts.fault = f
	if left, bounded := x.left(); bounded {
		if left <= 0 {
			return 0, x.giveUp(ctx, f)
		}
		wait = min(wait, left)
	}
	x.recall()
	pause, err := x.report(ctx)
	return soonest(wait, pause), err
}

// minTry is how long an operator tries to delete a script before it gives up, however long
// the one before it has: it may have been away together with the registry.
const minTry = 30 * time.Second

// left returns how long the object still waits for the registry, since the first
// attempt to delete the script failed; false if it waits for as long as it takes, or if
// this process made no attempt that failed.
func (x *reconciliation) left() (time.Duration, bool) {
	if x.wait <= 0 || x.m.stuck.IsZero() {
		return 0, false
	}
	until := x.m.stuck.Add(x.wait)
	// The deletion made another generation: a status of it tells of an attempt.
	if s := x.m.status(x.ls); s.ObservedGeneration == x.ls.Generation {
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c != nil && c.LastTransitionTime.Time.Before(x.m.stuck) {
			until = c.LastTransitionTime.Add(x.wait)
			if tried := x.m.stuck.Add(min(x.wait, minTry)); until.Before(tried) {
				until = tried
			}
		}
	}
	return time.Until(until), true
}

// delete removes the script from the registry, if it is the object's. It returns why it
// could not.
func (x *reconciliation) delete(ctx context.Context) *fault {
	m := x.m
	if m.deleted {
		return nil
	}
	if m.answer == nil {
		m.invalidate() // a script that the fleet has yet to tell of must not stay behind
	}
	have, err := x.have(ctx)
	if err != nil {
		return faultOf(err)
	}
	if Decide(Situation{Deleting: true, Owner: x.owner, Have: have}).Kind == LetGo {
		m.deleted, m.say = true, have == nil && m.deleting
		return nil
	}
	traced, end := x.trace(ctx, Delete, false)
	_, err = x.registry.Delete(traced, x.name, registryclient.Write{Author: spec.Author(x.owner), Owner: x.owner})
	end(err)
	if err != nil && script.KindOf(err) != script.NotFound {
		m.invalidate()
		f := faultOf(err)
		m.deleting = m.deleting || f.uncertain()
		return f
	}
	m.deleted, m.say = true, true
	return nil
}

// letGoDeleted lets the object go after its script.
func (x *reconciliation) letGoDeleted(ctx context.Context) error {
	return x.letGo(ctx, func() {
		if x.m.say {
			x.note(eventDeleted, "Delete", "the script %s is gone from the registry", x.name)
			x.log.Info("deleted", "object", x.owner, "script", x.name)
		}
	})
}

func (x *reconciliation) giveUp(ctx context.Context, f *fault) error {
	return x.abandon(ctx, fmt.Sprintf("gave up after %v: %s", x.wait, f.message()))
}

// abandon lets the object go without its script.
func (x *reconciliation) abandon(ctx context.Context, why string) error {
	return x.letGo(ctx, func() {
		x.warn(eventAbandoned, "Delete", "the script %s may still be in the registry and on the agents (%s): scriptctl delete --force removes it", x.name, why)
		x.log.Warn("a script is left in the registry", "object", x.owner, "script", x.name.String(), "why", why)
	})
}
