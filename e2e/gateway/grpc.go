package main

import (
	"context"
	"encoding/json"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/e2e/sight"
)

// grpcCallee is a script that is called by gRPC, which tells the version.
type grpcCallee struct {
	client *agentclient.Client
	script string
}

func (g grpcCallee) call(ctx context.Context) (sight.State, error) {
	result, err := g.client.Call(ctx, g.script, json.RawMessage(request))
	if err != nil {
		return sight.State{}, err
	}
	state := sight.State{Version: result.Version}
	if len(result.Values) > 0 {
		state.Content = text(result.Values[0])
	}
	return state, nil
}
