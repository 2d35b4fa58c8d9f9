// Package deliver sends records to collectors that may hang, refuse or be unreachable. It retries, and logs errors at
// most once a minute.
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
	// Collector is its name in the log. It must have no secret.
	Collector string
	// Timeout of one attempt; 0 means 10 s.
	Timeout time.Duration
	// RetryMin and RetryMax bound the pause between attempts, which doubles and has jitter; 0 means 200 ms and 10 s.
	RetryMin, RetryMax time.Duration
	// Log is for errors of the collector; nil means slog.Default().
	Log *slog.Logger
}

// Courier sends records to one collector. It is for one goroutine.
type Courier struct {
	cfg     Config
	failing bool

	failed, refused, warned time.Time // when the log last said so

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

// Permanent marks an error as a refusal, which is not retried.
func Permanent(err error) error { return backoff.Permanent(err) }

// Refuses reports whether the status of an HTTP response means that the collector will never accept these records. Other
// errors are temporary, or somebody can fix them, such as an expired token.
func Refuses(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// maxRetryAfter is the longest pause that a collector can ask for.
const maxRetryAfter = time.Minute

// After marks an error that is retried after the pause that the collector requested.
func After(pause time.Duration, err error) error {
	return &after{min(max(pause, 0), maxRetryAfter), err}
}

type after struct {
	pause time.Duration
	err   error
}

func (a *after) Error() string { return a.err.Error() }
func (a *after) Unwrap() error { return a.err }

// Send calls attempt until the collector accepts the records. If the collector refuses several, Send tries each half of
// them, so that only the records that it does not accept are lost: see Rejected. Send returns an error only if ctx is
// done before.
func Send[Record any](ctx context.Context, c *Courier, records []Record, attempt func(ctx context.Context, records []Record) error) error {
	refusal, err := c.retry(ctx, func(ctx context.Context) error { return attempt(ctx, records) })
	switch {
	case err != nil || refusal == nil:
		return err
	case len(records) == 1:
		c.Reject(1, refusal)
		return nil
	}
	half := len(records) / 2
	if err := Send(ctx, c, records[:half], attempt); err != nil {
		return err
	}
	return Send(ctx, c, records[half:], attempt)
}

// SendAll is Send for records that are refused together.
func (c *Courier) SendAll(ctx context.Context, records int, attempt func(ctx context.Context) error) error {
	refusal, err := c.retry(ctx, attempt)
	if refusal != nil {
		c.Reject(records, refusal)
	}
	return err
}

// retry calls attempt until it succeeds or fails for good, which is the refusal. err is set if ctx is done before.
func (c *Courier) retry(ctx context.Context, attempt func(ctx context.Context) error) (refusal, err error) {
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: c.cfg.RetryMin, MaxInterval: c.cfg.RetryMax, Multiplier: 2, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	var last error
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
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
		return nil, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the collector has not accepted the records: %w", errors.Join(last, context.Cause(ctx)))
	}
	return last, nil
}

// Reject counts records that the collector refused, or that cannot be sent.
func (c *Courier) Reject(records int, err error) {
	c.rejected.Records += records
	c.rejected.Err = err
	if due(&c.refused) {
		c.cfg.Log.Warn("the collector of decisions refuses records; they are dropped. Others are logged once a minute",
			"collector", c.cfg.Collector, "records", records, "error", err)
	}
}

// Warn logs what the collector says although it has accepted all records.
func (c *Courier) Warn(err error) {
	if due(&c.warned) {
		c.cfg.Log.Warn("the collector of decisions accepts the records with a warning. Others are logged once a minute", "collector", c.cfg.Collector, "error", err)
	}
}

// Rejected returns a decisionlog.Rejected with the records refused since its last call; nil if there are none.
func (c *Courier) Rejected() error {
	if c.rejected.Records == 0 {
		return nil
	}
	refused := c.rejected
	c.rejected = decisionlog.Rejected{}
	return &refused
}

func (c *Courier) fails(err error) {
	if !c.failing {
		c.failed = time.Time{}
	}
	if due(&c.failed) {
		c.cfg.Log.Warn("the collector of decisions does not take records; they wait, and the next ones are dropped when too many do",
			"collector", c.cfg.Collector, "error", err)
	}
	c.failing = true
}

// due reports whether the last log message of its kind is a minute old. Then the caller must log.
func due(last *time.Time) bool {
	if time.Since(*last) < time.Minute {
		return false
	}
	*last = time.Now()
	return true
}
