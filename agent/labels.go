package agent

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of what goes with a status: the registry drops one that is beyond them.
const (
	maxLabels      = 64
	maxLabelsBytes = 4 << 10 // of all names and values
	maxTextBytes   = 1024
)

// self returns the agent as releases select it.
func (cfg *Config) self() script.Agent { return script.Agent{Name: cfg.Name, Labels: cfg.Labels} }

// checkTexts refuses what would keep every status from being sent or read.
func checkTexts(cfg Config) error {
	if problem := problemOf(cfg.Software); problem != "" {
		return script.Errorf(script.Invalid, "software", "the version of the software %s", problem)
	}
	if len(cfg.Labels) > maxLabels {
		return script.Errorf(script.Invalid, "labels", "%d labels are too many: at most %d go with an agent's status", len(cfg.Labels), maxLabels)
	}
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(cfg.Labels)) {
		if problem := problemOf(key); problem != "" {
			return script.Errorf(script.Invalid, "labels", "the name of the label %.80q %s", key, problem)
		}
		if problem := problemOf(cfg.Labels[key]); problem != "" {
			return script.Errorf(script.Invalid, "labels", "the value of the label %.80q %s", key, problem)
		}
		bytes += len(key) + len(cfg.Labels[key])
	}
	if bytes > maxLabelsBytes {
		return script.Errorf(script.Invalid, "labels", "all labels have %d bytes, at most %d are allowed: leave some out, or shorten them", bytes, maxLabelsBytes)
	}
	return nil
}

func problemOf(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case len(text) > maxTextBytes:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), maxTextBytes)
	}
	return ""
}
