package webhook

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scriptorium-dev/scriptorium/operator/api/v1alpha1"
	"github.com/scriptorium-dev/scriptorium/operator/kinds"
	"github.com/scriptorium-dev/scriptorium/operator/spec"
	"github.com/scriptorium-dev/scriptorium/script"
)

// pinField is the field of an object that pins a version.
const pinField = "spec.version"

// checkPin refuses a pin of a version that does not exist and will not, as far as the
// status before knows all there is, and warns of one that may not. The registry has the
// last word.
func checkPin(kind kinds.Kind, before, ls *v1alpha1.LuaScript, w *spec.Wanted) (fault *script.Error, warnings admission.Warnings) {
	switch {
	case w.Pin == 0:
		return nil, nil
	case before == nil || before.Status.LatestVersion == 0:
		if w.Pin == 1 {
			return nil, nil
		}
		return nil, admission.Warnings{fmt.Sprintf("%s: pins version %d, and a new script has none but its first: unless the registry has that version already, the %s will be Stalled", pinField, w.Pin, kind)}
	}
	known := &before.Status
	if pinnable(known, w.Pin) || int64(w.Pin) == known.LatestVersion+1 && makesVersion(before, ls, w) { //nolint:gosec // at most 1<<53
		return nil, nil
	}
	if !fresh(before) {
		return nil, admission.Warnings{fmt.Sprintf("%s: version %d is none of those that the status tells of (%s), which may be behind: if there is none, the %s will be Stalled", pinField, w.Pin, versions(known), kind)}
	}
	return script.Errorf(script.NotFound, pinField, "%s has no version %d: it retains %s", w.Name, w.Pin, versions(known)), nil
}

// fresh reports whether the status of ls is what the registry makes of its spec.
func fresh(ls *v1alpha1.LuaScript) bool {
	c := meta.FindStatusCondition(ls.Status.Conditions, v1alpha1.ConditionPublished)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == ls.Generation
}

func pinnable(s *v1alpha1.LuaScriptStatus, version uint64) bool {
	return slices.ContainsFunc(s.History, func(v v1alpha1.VersionStatus) bool { return v.Version == int64(version) }) //nolint:gosec // at most 1<<53
}

// makesVersion reports whether w may be a version that there is not yet.
func makesVersion(before, ls *v1alpha1.LuaScript, w *spec.Wanted) bool {
	if len(before.Status.History) == 0 || before.Status.History[0].Digest != w.Digest().String() {
		return true
	}
	was, is := before.Spec.Entrypoint, ls.Spec.Entrypoint
	return (was == nil) != (is == nil) || was != nil && *was != *is
}

// versions are those that can be pinned, the oldest first.
func versions(s *v1alpha1.LuaScriptStatus) string {
	numbers := make([]string, len(s.History))
	for i, v := range s.History {
		numbers[len(numbers)-1-i] = fmt.Sprint(v.Version)
	}
	return strings.Join(numbers, ", ")
}

// warnOfPin warns of a new source that will not run.
func warnOfPin(kind kinds.Kind, before, ls *v1alpha1.LuaScript) admission.Warnings {
	if before == nil || ls.Spec.Version == nil || before.Spec.Version == nil || *before.Spec.Version != *ls.Spec.Version {
		return nil
	}
	is, err := spec.From(kind, ls)
	if err != nil {
		return nil
	}
	if was, err := spec.From(kind, before); err != nil || string(was.Source) == string(is.Source) {
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s: pins version %d, so the new source is published and does not run: remove spec.version to run it", pinField, *ls.Spec.Version)}
}
