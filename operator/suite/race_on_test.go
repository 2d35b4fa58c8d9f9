//go:build race

package suite_test

// thousand is fewer under the race detector, which makes etcd, the registry and the agents
// of this process ten times slower.
const thousand = 200

// thousandWithin is no promise here: they are waited for no longer.
const thousandWithin = manyPatience
