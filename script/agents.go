package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Agent is an agent as releases select it.
type Agent struct {
	Name   string
	Labels map[string]string // none of an agent that is too old to know selectors
}

// AgentSelector says which agents: those that have all of its labels. It is the text
// "rack=7,zone=a", in the order of the names. The zero AgentSelector selects all agents.
type AgentSelector string

// Bounds of an AgentSelector.
const (
	MaxSelectorLabels = 16
	MaxAgentLabelLen  = 63 // bytes of a label's name, and of its value
)

// NewAgentSelector returns the selector of the labels, one at least. Errors are Invalid and
// name the field, or the label below it.
func NewAgentSelector(field string, labels map[string]string) (AgentSelector, error) {
	switch n := len(labels); {
	case n == 0:
		return "", Errorf(Invalid, field, "names no label: add one, such as zone: a, or leave it out to select all agents")
	case n > MaxSelectorLabels:
		return "", Errorf(Invalid, field, "%d labels are too many: at most %d are allowed", n, MaxSelectorLabels)
	}
	const want = "want 1 to %d letters, digits, '-', '_', '.'%s, that start and end with a letter or digit"
	texts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := labels[name]
		if !isAgentLabel(name, "-_./") {
			return "", Errorf(Invalid, field, "%s is not the name of a label: "+want, quote(name), MaxAgentLabelLen, " and '/'")
		}
		if !isAgentLabel(value, "-_.") {
			return "", Errorf(Invalid, field+"."+name, "%s is not the value of a label: "+want, quote(value), MaxAgentLabelLen, "")
		}
		texts = append(texts, name+"="+value)
	}
	return AgentSelector(strings.Join(texts, ",")), nil
}

func isAgentLabel(s, others string) bool {
	if s == "" || len(s) > MaxAgentLabelLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			(i == 0 || i == len(s)-1 || strings.IndexByte(others, c) < 0) {
			return false
		}
	}
	return true
}

// Labels returns what NewAgentSelector makes s of; nil of the zero AgentSelector.
func (s AgentSelector) Labels() map[string]string {
	if s == "" {
		return nil
	}
	labels := map[string]string{}
	for label := range strings.SplitSeq(string(s), ",") {
		name, value, _ := strings.Cut(label, "=")
		labels[name] = value
	}
	return labels
}

// Matches reports whether s selects an agent with the labels. It allocates nothing.
func (s AgentSelector) Matches(labels map[string]string) bool {
	if s == "" {
		return true
	}
	if len(labels) == 0 {
		return false
	}
	for label := range strings.SplitSeq(string(s), ",") {
		name, value, _ := strings.Cut(label, "=")
		if has, ok := labels[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// Within reports whether outer selects every agent that s selects.
func (s AgentSelector) Within(outer AgentSelector) bool { return outer.Matches(s.Labels()) }

// Selection is what a step with a selector has given to agents: the candidate runs on those
// of them whose Bucket is below Threshold.
type Selection struct {
	Selector  AgentSelector
	Threshold uint32 // AllSelected takes all of them
}

// AllSelected is the Threshold of a Selection that takes all agents that its selector selects.
const AllSelected = 1<<32 - 1

func (s Selection) selects(bucket uint32, labels map[string]string) bool {
	return (bucket < s.Threshold || s.Threshold == AllSelected) && s.Selector.Matches(labels)
}

// String is "shadow 5 %", "zone=a", "10 %", "10 % of zone=a", "10 % of keys", or "10 % of keys on zone=a".
func (s Step) String() string {
	switch {
	case s.By == ByShadow && s.Selector == "":
		return fmt.Sprintf("shadow %d %%", s.Percent)
	case s.By == ByShadow:
		return fmt.Sprintf("shadow %d %% on %s", s.Percent, s.Selector)
	case s.By == ByKey && s.Selector == "":
		return fmt.Sprintf("%d %% of keys", s.Percent)
	case s.By == ByKey:
		return fmt.Sprintf("%d %% of keys on %s", s.Percent, s.Selector)
	case s.Selector == "":
		return fmt.Sprintf("%d %%", s.Percent)
	case s.Percent == 0:
		return string(s.Selector)
	}
	return fmt.Sprintf("%d %% of %s", s.Percent, s.Selector)
}

// Agents is "10 % of the agents", "the agents with zone=a", or "10 % of the agents with zone=a". Of a
// step by key it begins with "10 % of the keys on", and of a shadow step it ends with ", in the shadow
// of 10 % of the calls".
func (s Step) Agents() string {
	switch s.By {
	case ByShadow:
		return fmt.Sprintf("%s, in the shadow of %d %% of the calls", s.Selector.agents(), s.Percent)
	case ByKey:
		return fmt.Sprintf("%d %% of the keys on %s", s.Percent, s.Selector.agents())
	}
	switch {
	case s.Selector == "":
		return fmt.Sprintf("%d %% of the agents", s.Percent)
	case s.Percent == 0:
		return fmt.Sprintf("the agents with %s", s.Selector)
	}
	return fmt.Sprintf("%d %% of the agents with %s", s.Percent, s.Selector)
}

// agents is "all agents", or "the agents with zone=a".
func (s AgentSelector) agents() string {
	if s == "" {
		return "all agents"
	}
	return fmt.Sprintf("the agents with %s", string(s))
}
