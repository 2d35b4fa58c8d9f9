package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/scriptorium-dev/scriptorium/e2e/sight"
	"github.com/scriptorium-dev/scriptorium/script"
)

// respCallee is a script that is called over a connection of its own by FCALL, as a
// proxy with a Redis client does. That tells no version.
type respCallee struct {
	client *redis.Client
	words  []any
}

// newRESPCallee returns the script of the agent at socket. It does not connect yet. An
// agent that could not be reached is tried again each second; calls fail until then.
func newRESPCallee(socket, name string) *respCallee {
	return &respCallee{
		client: redis.NewClient(&redis.Options{
			Network: "unix", Addr: socket,
			// Nothing but the calls: HELLO is all that goes before them.
			Protocol: 2, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			PoolSize:                 1, PipelinePoolSize: -1,
			// The test has to see each call that fails.
			MaxRetries: -1, DialerRetries: 1,
			ReadTimeout: 15 * time.Second, // longer than any script may run
		}),
		words: []any{"FCALL", name, "0", request},
	}
}

func (r *respCallee) call(ctx context.Context) (sight.State, error) {
	value, err := r.client.Do(ctx, r.words...).Result()
	switch {
	case errors.Is(err, redis.Nil): // the script returns nothing
		return sight.State{}, nil
	case err != nil:
		return sight.State{}, respFailure(err)
	}
	if several, ok := value.([]any); ok && len(several) > 0 {
		value = several[0]
	}
	answer, _ := value.(string)
	return sight.State{Content: text([]byte(answer))}, nil
}

// respFailure gives an error the kind that it has over gRPC. The agent's errors begin
// with theirs.
func respFailure(err error) *script.Error {
	if e, ok := errors.AsType[redis.Error](err); ok {
		kind, message, _ := strings.Cut(e.Error(), " ")
		return &script.Error{Kind: script.Kind(kind), Message: message, Err: err}
	}
	kind := script.Unavailable
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		kind = script.Timeout
	}
	return script.Errorf(kind, "", "call the agent: %w", err)
}
