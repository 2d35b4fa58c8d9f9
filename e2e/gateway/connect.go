package main

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
)

// agent is the node's, as callers reach it.
type agent struct {
	socket string
	url    string              // of a gateway in front of the agent; "": callers use the socket
	grpc   *agentclient.Client // shared by all; nil: by RESP
	resp   []*respCallee
}

// connect returns the agent. It does not wait for it.
func connect(o options) (*agent, error) {
	a := &agent{socket: cmp.Or(o.socket, "/run/scriptorium/"+o.protocol+".sock")}
	switch o.protocol {
	case "grpc":
		client, err := agentclient.New(a.socket)
		a.grpc = client
		return a, err
	case "resp":
		return a, nil
	case "http":
		a.url = o.url
		return a, nil
	}
	return nil, fmt.Errorf("--protocol is %q: want grpc, resp or http", o.protocol)
}

// callee returns the script for one caller.
func (a *agent) callee(name string) callee {
	if a.url != "" {
		return newWebCallee(http.DefaultClient, a.url, name)
	}
	if a.grpc != nil {
		return grpcCallee{client: a.grpc, script: name}
	}
	r := newRESPCallee(a.socket, name)
	a.resp = append(a.resp, r)
	return r
}

// close ends calls that are under way.
func (a *agent) close() {
	if a.grpc != nil {
		_ = a.grpc.Close()
	}
	for _, r := range a.resp {
		_ = r.client.Close()
	}
}
