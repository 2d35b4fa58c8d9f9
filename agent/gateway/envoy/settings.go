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
	script  string
	fail    decision.Fail
	timeout time.Duration // 0: what the script may take
	route   string
	key     script.KeySource // what the request counts as in a rollout by key, unless the plan says it
	params  map[string]string
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
	if s.script == "" {
		return nil, script.Errorf(script.Invalid, field, "names no script: set script to tenant/name")
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
		s.script = value
	case name == "fail":
		s.fail, err = decision.ParseFail(value)
	case name == "timeout":
		if s.timeout, err = time.ParseDuration(value); err != nil || s.timeout <= 0 {
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
		return script.Errorf(script.Invalid, field, "%.40q is no setting: want script, fail, timeout, route, key or param.NAME", name)
	}
	return err
}
