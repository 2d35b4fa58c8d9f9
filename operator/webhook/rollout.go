package webhook

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/scriptorium-dev/scriptorium/script"
)

// warnOfRollout warns of tests and steps that show less than somebody may think.
func warnOfRollout(s *script.Settings) (warnings admission.Warnings) {
	for i, t := range s.Tests {
		if t.Expect == nil && t.Error == "" {
			warnings = append(warnings, fmt.Sprintf("spec.tests[%d]: expects nothing: it passes whenever the call does not fail; say what it should answer in expect", i))
		}
	}
	for i, step := range s.Rollout.Steps {
		switch {
		case step.Pause > 0 || step.Approval || !step.Gate.IsZero():
		case s.Rollout.LooksAtCalls() && s.Rollout.Calls() == 0:
			warnings = append(warnings, fmt.Sprintf("spec.rollout.steps[%d].pause: without one the step is over after 10s, and minCalls of 0 has it pass without any call", i))
		case s.Rollout.LooksAtCalls(): // calls are the evidence
		default:
			warnings = append(warnings, fmt.Sprintf("spec.rollout.steps[%d].pause: without one the step is over as soon as the version runs on %s, before calls show how it does there", i, step.Agents()))
		}
	}
	return warnings
}
