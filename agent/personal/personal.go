// Package personal has calls with the key of a personal version run that version, in place of the script that they
// are of. It stands before all other executors: behind it such a call is one of the personal version, which has
// counts, logs and a quarantine of its own.
package personal

import (
	"context"
	"strings"

	"github.com/scriptorium-dev/scriptorium/agent/cache"
	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// Router returns an executor that runs personal versions, and all other calls, on next. The table has both.
func Router(next gateway.Executor, table *cache.Table) gateway.Executor {
	return &router{Executor: next, table: table}
}

type router struct {
	gateway.Executor
	table *cache.Table
}

// Execute implements gateway.Executor. What a chain or an earlier reply chose stays.
func (r *router) Execute(ctx context.Context, call *gateway.Call, reply *gateway.Reply) error {
	if call.Edition != nil {
		return r.Executor.Execute(ctx, call, reply)
	}
	tenant, name, _ := strings.Cut(call.Script, "/") // with a version it is the name of no script
	if own := r.table.Personal(script.Name{Tenant: tenant, Script: name}, call.KeyFrom); own != nil {
		personal := *call
		personal.Script, personal.Edition = own.Name.String(), own
		err := r.Executor.Execute(ctx, &personal, reply)
		reply.Edition = own // the name that the call has, with the version, is another program
		return err
	}
	return r.Executor.Execute(ctx, call, reply)
}

// Chain implements gateway.Executor. A personal version runs where its script does in the chain.
func (r *router) Chain(dst []gateway.Link, tenant, event string, attributes *script.Attributes, call *gateway.Call) ([]gateway.Link, error) {
	before := len(dst)
	dst, err := r.Executor.Chain(dst, tenant, event, attributes, call)
	for i := before; i < len(dst); i++ {
		if own := r.table.Personal(dst[i].Script, call.KeyFrom); own != nil {
			dst[i] = gateway.Link{Script: own.Name, Version: own.Runs.Number, Edition: own}
		}
	}
	return dst, err
}
