package fleet

import (
	"reflect"
	"slices"
)

// Same reports whether s and o are the same status of one script. Of the release it compares
// the revision and the time of the change, which stand for all of it: a restore may use
// revisions again.
func (s *ScriptStatus) Same(o *ScriptStatus) bool {
	return s.Release.Revision == o.Release.Revision && s.Release.ChangedAt.Equal(o.Release.ChangedAt) &&
		s.Desired == o.Desired && s.Active == o.Active && s.Failed == o.Failed && s.Lagging == o.Lagging && s.Unknown == o.Unknown && s.Starting == o.Starting &&
		s.Converged == o.Converged && s.SlowestAgent == o.SlowestAgent &&
		s.Rollout == o.Rollout && // which never changes once it is there
		reflect.DeepEqual(s.Trials, o.Trials) && reflect.DeepEqual(s.Unreadable, o.Unreadable) &&
		slices.EqualFunc(s.Failures, o.Failures, func(a, b AgentFailure) bool {
			return a.Agent == b.Agent && (a.Err == b.Err || a.Err.Error() == b.Err.Error() && a.Err.Kind == b.Err.Kind)
		})
}
