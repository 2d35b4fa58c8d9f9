package gateway

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/scriptorium-dev/scriptorium/script"
)

// Protect returns an Executor whose Execute does not panic: a panic of x is
// logged, and the call that met it fails as Internal.
func Protect(x Executor, logger *slog.Logger) Executor {
	return &protected{Executor: x, logger: logger}
}

type protected struct {
	Executor
	logger *slog.Logger
}

func (p *protected) Execute(ctx context.Context, call *Call, reply *Reply) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p.logger.Error("a call panicked", "script", call.Script, "panic", v, "stack", string(debug.Stack()))
			onError := reply.OnError
			reply.Reset()
			reply.OnError = onError
			err = script.Errorf(script.Internal, "", "the agent failed to run the script; its log says why")
		}
	}()
	return p.Executor.Execute(ctx, call, reply)
}
