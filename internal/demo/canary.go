package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// loseCanary has a candidate run on one agent, whose process ends then: the rollout walks no
// further.
func (d *demo) loseCanary(ctx context.Context) (string, error) {
	_, err := d.registry.Publish(ctx, registryclient.PublishRequest{
		Name: name, Source: source(0),
		Settings: &script.Settings{HistoryLimit: 2 + changes, Rollout: script.Plan{Steps: []script.Step{{Percent: 1, Pause: time.Hour}}}},
		Write:    registryclient.Write{Author: "demo"},
	})
	if err != nil {
		return "", err
	}
	candidate, err := d.candidate(ctx, func(c *script.Candidate) bool { return !c.Running.IsZero() || c.Failed != "" })
	if err != nil {
		return "", err
	}
	var canary *agent
	for _, a := range d.agents {
		if script.Bucket(a.node.name, name) < candidate.Threshold {
			canary = a
		}
	}
	if canary == nil {
		return "", errors.New("no agent runs the candidate")
	}
	if err := canary.node.answers(ctx, name.String(), answer(0)); err != nil {
		return "", err
	}
	if err := canary.kill(); err != nil {
		return "", err
	}
	killed := time.Now()
	if err := canary.start(ctx); err != nil {
		return "", err
	}
	if candidate, err = d.candidate(ctx, func(c *script.Candidate) bool { return c.Failed != "" }); err != nil {
		return "", err
	}
	took := time.Since(killed)
	if candidate.Step != 1 || len(d.agents) < 2 {
		return "", fmt.Errorf("the candidate was given up in step %d", candidate.Step)
	}
	if err := d.eachAnswers(ctx, answer(d.edition)); err != nil {
		return "", err
	}
	return fmt.Sprintf("given up in %s, since %s was lost: it ran nowhere else", Milliseconds(took), canary.node.name), nil
}

// candidate waits until the script's candidate is as wanted.
func (d *demo) candidate(ctx context.Context, is func(*script.Candidate) bool) (script.Candidate, error) {
	for fleet, err := range d.registry.WatchStatus(ctx, name) {
		if err != nil {
			return script.Candidate{}, fmt.Errorf("watch the candidate: %w", err)
		}
		for i := range fleet.Scripts {
			switch c := fleet.Scripts[i].Release.Candidate; {
			case c == nil:
			case is(c):
				return *c, nil
			}
		}
	}
	return script.Candidate{}, errors.New("the candidate is not as wanted")
}
