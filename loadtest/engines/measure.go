package main

import (
	"context"
	"slices"
	"syscall"
	"time"
)

// contestant is a program whose calls are measured.
type contestant struct {
	task, name string
	call       func(context.Context) error
	cpuOf      func() (time.Duration, error) // processor time so far; nil: of this process
	rounds     []figures
	about      about
}

// figures are what one measurement says of a call.
type figures struct{ cpu, p50, p99 time.Duration }

// about is what a program costs once. Zeros are not known.
type about struct {
	instructions   uint64
	compile, start time.Duration
	memory, source int
}

// mostSamples bounds the latencies that a measurement keeps.
const mostSamples = 1 << 20

// measure calls again and again.
func (c *contestant) measure(ctx context.Context, duration time.Duration) error {
	for range 3 { // pools fill
		if err := c.call(ctx); err != nil {
			return err
		}
	}
	cpuOf := c.cpuOf
	if cpuOf == nil {
		cpuOf = ownCPU
	}
	before, err := cpuOf()
	if err != nil {
		return err
	}
	var took []time.Duration
	began := time.Now()
	for last := began; last.Sub(began) < duration && len(took) < mostSamples; {
		if err := c.call(ctx); err != nil {
			return err
		}
		now := time.Now()
		took = append(took, now.Sub(last))
		last = now
	}
	after, err := cpuOf()
	if err != nil {
		return err
	}
	slices.Sort(took)
	c.rounds = append(c.rounds, figures{cpu: (after - before) / time.Duration(len(took)), p50: quantile(took, 0.5), p99: quantile(took, 0.99)})
	return nil
}

// ownCPU returns the processor time of this process, as the kernel counts it.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// quantile returns the latency that the part q of the sorted ones does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// middle returns the median of what the rounds say.
func (c *contestant) middle(of func(figures) time.Duration) time.Duration {
	all := make([]time.Duration, 0, len(c.rounds))
	for _, f := range c.rounds {
		all = append(all, of(f))
	}
	slices.Sort(all)
	return quantile(all, 0.5)
}
