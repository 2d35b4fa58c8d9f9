package respsock_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/scriptorium-dev/scriptorium/agent/gateway/respsock"
)

// TestGoRedis uses a client as people do, with all that it sends by itself.
func TestGoRedis(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) {
			db := redis.NewClient(&redis.Options{Network: "unix", Addr: path, Protocol: protocol, ClientName: "test", PoolSize: 4})
			defer db.Close()
			ctx := t.Context()
			if err := db.Ping(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := db.FCall(ctx, "acme/echo", nil, `{"a":1}`).Text(); err != nil || got != `{"a":1}` {
				t.Errorf("got %q, %v", got, err)
			}
			if got, err := db.FCallRO(ctx, "acme/echo", nil, `1`, `2`).StringSlice(); err != nil || strings.Join(got, " ") != "1 2" {
				t.Errorf("got %q, %v", got, err)
			}
			if err := db.FCall(ctx, "acme/nothing", nil).Err(); !errors.Is(err, redis.Nil) {
				t.Errorf("no result is %v, want redis.Nil", err)
			}
			if err := db.FCall(ctx, "acme/fail", nil).Err(); err == nil || err.Error() != "SCRIPT it broke  badly (line 3)" {
				t.Errorf("error %v", err)
			}
			full, err := db.Do(ctx, "SCRIPTORIUM.CALL", "acme/echo", 1, `[]`).Slice()
			if err != nil || len(full) != 4 || full[0] != int64(7) || full[2] != int64(412) {
				t.Errorf("got %v, %v", full, err)
			}
			if got, err := db.ConfigGet(ctx, "save").Result(); err != nil || got["save"] != "" {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := db.Command(ctx).Result(); err != nil || got["fcall"] == nil {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := db.Info(ctx).Result(); err != nil || !strings.Contains(got, "revision:42") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestTransactions: clients send MULTI by default for a pipeline, redis-py for one. Some
// raise the error of MULTI, others that of EXEC, and both have to name the way out.
func TestTransactions(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: path, PoolSize: 1})
	defer db.Close()
	const advice = "pipeline(transaction=False)"
	call := func(pipe redis.Pipeliner) error { return pipe.FCall(t.Context(), "acme/echo", nil, "1").Err() }
	if _, err := db.TxPipelined(t.Context(), call); err == nil || !strings.Contains(err.Error(), advice) {
		t.Errorf("a transaction: %v", err)
	}
	err := db.Watch(t.Context(), func(*redis.Tx) error { return nil }, "key")
	if err == nil || !strings.Contains(err.Error(), advice) {
		t.Errorf("a watch: %v", err)
	}
	for _, name := range []string{"multi", "EXEC", "discard", "UNWATCH"} {
		if err := db.Do(t.Context(), name).Err(); err == nil || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// redis-py raises the error of MULTI if that of EXEC has this prefix, and else the latter.
	if err := db.Do(t.Context(), "EXEC").Err(); err == nil || !strings.HasPrefix(err.Error(), "EXECABORT ") {
		t.Errorf("EXEC: %v", err)
	}
	if _, err := db.Pipelined(t.Context(), call); err != nil {
		t.Errorf("a pipeline without a transaction: %v", err)
	}
}

func TestGoRedisPipelines(t *testing.T) {
	_, path := serve(t, respsock.Options{})
	db := redis.NewClient(&redis.Options{Network: "unix", Addr: path, PoolSize: 8})
	defer db.Close()
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for round := range 20 {
				pipe := db.Pipeline()
				var answers []*redis.Cmd
				for i := range 100 {
					answers = append(answers, pipe.FCall(t.Context(), "acme/echo", nil, fmt.Sprintf(`"%d-%d-%d"`, caller, round, i)))
				}
				if _, err := pipe.Exec(t.Context()); err != nil {
					t.Error(err)
					return
				}
				for i, answer := range answers {
					if want := fmt.Sprintf(`"%d-%d-%d"`, caller, round, i); answer.Val() != want {
						t.Errorf("got %v, want %s", answer.Val(), want)
					}
				}
			}
		})
	}
	callers.Wait()
}
