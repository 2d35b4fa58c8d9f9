// Package processprofile takes profiles of the process that it runs in: one at a time, for a bounded
// time, and of bounded size.
package processprofile

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Bounds of a profile.
const (
	MaxDuration = time.Minute
	MaxBytes    = 8 << 20 // compressed, as pprof has it
)

// Kind of a profile.
type Kind string

// The kinds.
const (
	CPU       Kind = "cpu"       // where the process computes
	Heap      Kind = "heap"      // what is in memory
	Allocs    Kind = "allocs"    // what was allocated since the start
	Goroutine Kind = "goroutine" // where all goroutines are
	Mutex     Kind = "mutex"     // who holds locks that others wait for
	Block     Kind = "block"     // where goroutines wait
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{CPU, Heap, Allocs, Goroutine, Mutex, Block} }

// takesTime reports whether a profile of the kind is of a span of time.
func (k Kind) takesTime() bool { return k == CPU || k == Mutex || k == Block }

// one is held while a profile is taken: the process has one CPU profile, and one rate of each kind.
var one sync.Mutex

// Take returns a profile in the format of pprof. It ends early when end is closed. A second one at a
// time is a Conflict.
func Take(ctx context.Context, kind Kind, duration time.Duration, end <-chan struct{}) ([]byte, error) {
	if kind.takesTime() && (duration <= 0 || duration > MaxDuration) {
		return nil, script.Errorf(script.Invalid, "duration", "is %v, want more than 0 and at most %v", duration, MaxDuration)
	}
	if !one.TryLock() {
		return nil, script.Errorf(script.Conflict, "", "another profile of this process is being taken: wait until it ends, in at most %v", MaxDuration)
	}
	defer one.Unlock()
	out := &bounded{}
	var err error
	switch kind {
	case CPU:
		err = takeCPU(ctx, duration, end, out)
	case Mutex, Block:
		err = takeWaits(ctx, kind, duration, end, out)
	case Heap, Allocs, Goroutine:
		err = pprof.Lookup(string(kind)).WriteTo(out, 0)
	default:
		err = script.Errorf(script.Invalid, "type", "%.80q is no type of profile: want one of %v", kind, Kinds())
	}
	if out.full { // a profile of the processor does not say that it could not be written
		err = errTooLarge
	}
	if err != nil {
		return nil, err
	}
	return out.buf.Bytes(), nil
}

func takeCPU(ctx context.Context, duration time.Duration, end <-chan struct{}, out *bounded) error {
	if err := pprof.StartCPUProfile(out); err != nil { // whoever uses the debug socket
		return script.Errorf(script.Conflict, "", "another profile of this process is being taken: %w", err)
	}
	wait(ctx, duration, end)
	pprof.StopCPUProfile()
	return ctx.Err()
}

// takeWaits takes a profile of a kind that adds up since the process has begun.
func takeWaits(ctx context.Context, kind Kind, duration time.Duration, end <-chan struct{}, out *bounded) error {
	stop := Sample(kind)
	defer stop()
	before, err := snapshot(kind)
	if err != nil {
		return err
	}
	wait(ctx, duration, end)
	after, err := snapshot(kind)
	if err != nil {
		return err
	}
	before.Scale(-1)
	grown, err := profile.Merge([]*profile.Profile{before, after})
	if err != nil {
		return fmt.Errorf("subtract what was there before: %w", err)
	}
	grown.TimeNanos, grown.DurationNanos = after.TimeNanos, after.TimeNanos-before.TimeNanos
	if err := grown.Write(out); err != nil {
		return err
	}
	return ctx.Err()
}

func snapshot(kind Kind) (*profile.Profile, error) {
	var buf bytes.Buffer
	if err := pprof.Lookup(string(kind)).WriteTo(&buf, 0); err != nil {
		return nil, err
	}
	at := time.Now()
	p, err := profile.Parse(&buf)
	if err != nil {
		return nil, fmt.Errorf("read the profile of this process: %w", err)
	}
	p.TimeNanos = at.UnixNano()
	return p, nil
}

// How much is sampled: few enough events that the process stays as fast.
const (
	mutexFraction = 10     // one of so many
	blockRate     = 10_000 // one each so many nanoseconds of waiting
)

// sampling counts who wants samples of each kind.
var sampling struct {
	mu           sync.Mutex
	mutex, block int
}

// Sample has the process take samples for profiles of the kinds Mutex and Block until stop is called;
// they cost too much to be always on.
func Sample(kind Kind) (stop func()) {
	sample(kind, 1)
	return sync.OnceFunc(func() { sample(kind, -1) })
}

func sample(kind Kind, n int) {
	sampling.mu.Lock()
	defer sampling.mu.Unlock()
	switch kind {
	case Mutex:
		sampling.mutex += n
		runtime.SetMutexProfileFraction(min(sampling.mutex, 1) * mutexFraction)
	case Block:
		sampling.block += n
		runtime.SetBlockProfileRate(min(sampling.block, 1) * blockRate)
	}
}

func wait(ctx context.Context, duration time.Duration, end <-chan struct{}) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-end:
	case <-ctx.Done():
	}
}

var errTooLarge = script.Errorf(script.Limit, "", "the profile has more than %d MiB: take a shorter one", MaxBytes>>20)

// bounded is a buffer of MaxBytes.
type bounded struct {
	buf  bytes.Buffer
	full bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > MaxBytes {
		b.full = true
		return 0, errTooLarge
	}
	return b.buf.Write(p)
}
