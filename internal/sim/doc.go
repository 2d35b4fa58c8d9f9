// Package sim simulates a registry and its fleet: replicas, agents, writers and
// what lies between them, all in one process and on a virtual clock. It has tests
// alone.
//
// The rules, the feed, the mirror, the fleet and the follower are the real ones.
// Simulated is what fails: the network, the disks, the election, the clocks, and
// the store's answers. A seed makes a schedule, a list of steps that write, break,
// forge, crash and heal; it runs in milliseconds, and the promises that
// docs/architecture.md makes are checked while it does. So tens of thousands of
// histories are tried that no test of real processes has the time for, and one
// that breaks a promise is cut down to the few steps that it takes.
//
//	go test ./internal/sim -run TestSchedules -sim.schedules 20000 -sim.seed 1
//
// A seed decides the steps and the fate of each message. What happens at one
// moment happens in the order that Go's scheduler gives it, so a history that
// depends on it may need some runs to show again.
package sim
