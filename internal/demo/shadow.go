package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// shadowed is how many calls the shadow compares at least.
const shadowed = 20

// shadow has a candidate run in the shadow of calls, and shows where its results differ.
func (d *demo) shadow(ctx context.Context) (string, error) {
	_, err := d.registry.Publish(ctx, registryclient.PublishRequest{
		Name: name, Source: source(0),
		Settings: &script.Settings{
			HistoryLimit: 2 + changes,
			Rollout:      script.Plan{Steps: []script.Step{{By: script.ByShadow, Percent: 100, Pause: time.Hour}}},
		},
		Write: registryclient.Write{Author: "demo"},
	})
	if err != nil {
		return "", err
	}
	if _, err := d.candidate(ctx, func(c *script.Candidate) bool { return !c.Running.IsZero() }); err != nil {
		return "", err
	}
	diff, calls := registryclient.ShadowDiff{}, 0
	for diff.Calls.Compared() < shadowed {
		for range shadowed {
			if err := d.eachAnswers(ctx, answer(d.edition)); err != nil { // and nobody gets the candidate's
				return "", err
			}
			calls += len(d.agents)
		}
		if diff, err = d.registry.ShadowDiff(ctx, name, nil); err != nil {
			return "", err
		}
	}
	if diff.Calls.Different != diff.Calls.Compared() || len(diff.Findings.Samples) == 0 {
		return "", fmt.Errorf("the shadow found %+v", diff.Calls)
	}
	if _, _, err := d.registry.Steer(ctx, name, registryclient.Abort, diff.Candidate, registryclient.Write{Author: "demo"}); err != nil {
		return "", err
	}
	sample := diff.Findings.Samples[0]
	return fmt.Sprintf("%d of %d calls shadowed: %s became %s", diff.Calls.Compared(), calls, sample.Live, sample.Shadow), nil
}
