// Package deliver brings records to collectors that may hang, refuse or be gone: it tries again
// until they are back, and says in the log once a minute what is wrong.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/scriptorium-dev/scriptorium/agent/decisionlog"
)

// Config of a Courier.
type Config struct {
	// Collector is what the log calls it. It holds no secret.
	Collector string
	// Timeout of one attempt; 0 means 10 s.
	Timeout time.Duration
	// RetryMin and RetryMax bound the pause between two attempts, which doubles and has jitter; 0
	// means 200 ms and 10 s.
	RetryMin, RetryMax time.Duration
	// Log gets what is wrong; nil means slog.Default().
	Log *slog.Logger
}

// Courier brings records to one collector. It is for one goroutine.
type Courier struct {
	cfg     Config
	failing bool
	said    time.Time // when the log was last told what is wrong

	rejected decisionlog.Rejected
}

// New returns a courier.
func New(cfg Config) *Courier {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.RetryMin == 0 {
		cfg.RetryMin = 200 * time.Millisecond
	}
	if cfg.RetryMax == 0 {
		cfg.RetryMax = 10 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Courier{cfg: cfg}
}

// Permanent marks the error of an attempt that is of no use to repeat.
func Permanent(err error) error { return backoff.Permanent(err) }

// Refuses reports whether the status of an HTTP answer means that the collector will never take these records. Other
// errors are about the agent or the collector, such as a token that has expired: somebody can mend them.
func Refuses(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// maxRetryAfter is the longest pause that a collector can ask for.
const maxRetryAfter = time.Minute

// After marks the error of an attempt to repeat after the pause that the collector asks for.
func After(pause time.Duration, err error) error {
	return &after{min(max(pause, 0), maxRetryAfter), err}
}

type after struct {
	pause time.Duration
	err   error
}

func (a *after) Error() string { return a.err.Error() }
func (a *after) Unwrap() error { return a.err }

// Send attempts to send so many records until the collector accepts them. It returns an error only if
// ctx ended before; records that the collector refuses for good are counted, see Rejected.
func (c *Courier) Send(ctx context.Context, records int, attempt func(ctx context.Context) error) error {
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: c.cfg.RetryMin, MaxInterval: c.cfg.RetryMax, Multiplier: 2, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
		last = attempt(limited)
		if last == nil {
			return struct{}{}, nil
		}
		if _, permanent := errors.AsType[*backoff.PermanentError](last); !permanent && ctx.Err() == nil {
			c.fails(last)
		}
		if a, ok := errors.AsType[*after](last); ok {
			return struct{}{}, &backoff.RetryAfterError{Duration: max(a.pause, c.cfg.RetryMin)}
		}
		return struct{}{}, last
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		if c.failing {
			c.failing = false
			c.cfg.Log.Info("the collector of decisions takes records again", "collector", c.cfg.Collector)
		}
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("the collector has not accepted the records: %w", errors.Join(last, context.Cause(ctx)))
	}
	c.Reject(records, last)
	return nil
}

// Reject counts records that the collector does not take, or that are not sent to it.
func (c *Courier) Reject(records int, err error) {
	c.rejected.Records += records
	c.rejected.Err = err
	if c.seldom() {
		c.cfg.Log.Warn("the collector of decisions refuses records; they are dropped. Others are logged once a minute",
			"collector", c.cfg.Collector, "records", records, "error", err)
	}
}

// Rejected returns what was refused since it was last called; nil if nothing was.
func (c *Courier) Rejected() error {
	if c.rejected.Records == 0 {
		return nil
	}
	refused := c.rejected
	c.rejected = decisionlog.Rejected{}
	return &refused
}

func (c *Courier) fails(err error) {
	if !c.failing || c.seldom() {
		c.cfg.Log.Warn("the collector of decisions does not take records; they wait, and the next ones are dropped when too many do",
			"collector", c.cfg.Collector, "error", err)
		c.said = time.Now()
	}
	c.failing = true
}

// seldom reports whether a minute has passed since the log was last told.
func (c *Courier) seldom() bool {
	if time.Since(c.said) < time.Minute {
		return false
	}
	c.said = time.Now()
	return true
}
