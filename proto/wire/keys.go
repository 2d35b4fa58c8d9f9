package wire

import (
	scriptv1 "github.com/scriptorium-dev/scriptorium/proto/script/v1"
	"github.com/scriptorium-dev/scriptorium/script"
)

// fromShare returns the message for what the step takes. Of a step by key it is where software that
// does not know such steps does not look.
func fromShare(s script.Step) *scriptv1.Step {
	percent, selector := int32(s.Percent), s.Selector.Labels() //nolint:gosec // a plan that is valid
	switch s.By {
	case script.ByKey:
		return &scriptv1.Step{Keys: &scriptv1.KeyShare{Percent: percent, Selector: selector}}
	case script.ByShadow:
		return &scriptv1.Step{Shadow: &scriptv1.ShadowShare{Percent: percent, Selector: selector}}
	}
	return &scriptv1.Step{Percent: percent, Selector: selector}
}

// toShare returns a step with nothing but what it takes; field is the path of the selector.
func toShare(m *scriptv1.Step, field string) (s script.Step, err error) {
	percent, selector := m.GetPercent(), m.GetSelector()
	if keys := m.GetKeys(); keys != nil {
		s.By, percent, selector = script.ByKey, keys.GetPercent(), keys.GetSelector()
	}
	if shadow := m.GetShadow(); shadow != nil {
		s.By, percent, selector = script.ByShadow, shadow.GetPercent(), shadow.GetSelector()
	}
	s.Percent = int(percent)
	if len(selector) > 0 {
		s.Selector, err = script.NewAgentSelector(field, selector)
	}
	return s, err
}

func fromKeys(list []script.Selection) (keys []*scriptv1.Keys) {
	for _, s := range list {
		keys = append(keys, &scriptv1.Keys{Selector: s.Selector.Labels(), Threshold: s.Threshold})
	}
	return keys
}

// toKeys takes one without labels: it selects all agents.
func toKeys(list []*scriptv1.Keys) (keys []script.Selection, err error) {
	for _, m := range list {
		var selector script.AgentSelector
		if len(m.GetSelector()) > 0 {
			if selector, err = script.NewAgentSelector("candidate.keys.selector", m.GetSelector()); err != nil {
				return nil, err
			}
		}
		keys = append(keys, script.Selection{Selector: selector, Threshold: m.GetThreshold()})
	}
	return keys, nil
}
