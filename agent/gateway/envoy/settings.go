package envoy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/decision"
	"github.com/scriptorium-dev/scriptorium/script"
)

// settings are what Envoy's configuration says about a decision.
type settings struct {
	decision.Question
	route  string
	key    script.KeySource // of the key in a rollout whose plan names no source
	params map[string]string
}

const paramPrefix = "param."

// parseSettings reads settings by name. A name that is not known is an error: it may be a
// misspelled one that denies.
func parseSettings(field string, values map[string]string) (*settings, error) {
	s := &settings{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := s.set(field, name, values[name]); err != nil {
			return nil, err
		}
	}
	if s.Target == (decision.Target{}) {
		return nil, script.Errorf(script.Invalid, field, "names no script: set script to tenant/name, or event and tenant")
	}
	if err := s.Target.Validate(); err != nil {
		return nil, script.Errorf(script.Invalid, field, "%v", err)
	}
	return s, nil
}

func (s *settings) set(field, name, value string) (err error) {
	param, isParam := strings.CutPrefix(name, paramPrefix)
	switch {
	case name == "script":
		if _, err := script.ParseRef(value); err != nil {
			return script.Errorf(script.Invalid, field, "script names no script: want tenant/name or tenant/name@7: %v", err)
		}
		s.Target.Script = value
	case name == "event":
		s.Target.Event = value
	case name == "tenant":
		s.Target.Tenant = value
	case name == "fail":
		s.Fail, err = decision.ParseFail(value)
	case name == "timeout":
		if s.Timeout, err = time.ParseDuration(value); err != nil || s.Timeout <= 0 {
			return script.Errorf(script.Invalid, field, "timeout is %.40q: want a positive duration such as 50ms", value)
		}
	case name == "key":
		s.key, err = script.ParseKeySource(field, value)
	case name == "route":
		s.route = value
	case isParam && param != "":
		if s.params == nil {
			s.params = map[string]string{}
		}
		s.params[param] = value
	default:
		return script.Errorf(script.Invalid, field, "%.40q is no setting: want script, event, tenant, fail, timeout, route, key or param.NAME", name)
	}
	return err
}
