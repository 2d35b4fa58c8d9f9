package script

import "time"

// Rollout is how a release came to all agents that follow it. The times are from
// its commit, by the registry's clock, until it was live on an agent.
type Rollout struct {
	Revision Revision // of the release
	Agents   int      // that were measured
	// Median and P99 are of all agents, and at most 1.6 % off; Slowest is exact.
	Median, P99, Slowest time.Duration
	SlowestAgent         string
	ConvergedAt          time.Time
}
