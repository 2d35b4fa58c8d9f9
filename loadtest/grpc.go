package main

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	agentv1 "github.com/scriptorium-dev/scriptorium/proto/agent/v1"
)

// driveUnary makes one unary gRPC call after the other on each connection.
func driveUnary(ctx context.Context, socket string, l load) (*measurement, error) {
	return together(ctx, l, func(ctx context.Context, until time.Time) (*measurement, error) {
		conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		api := agentv1.NewExecutorClient(conn)
		request := &agentv1.ExecuteRequest{Script: routeRef, Args: [][]byte{[]byte(routeArg)}}
		return repeat(until, func() error {
			_, err := api.Execute(ctx, request)
			return err
		}), nil
	})
}

// driveClient does the same with the Go client that gateways import.
func driveClient(ctx context.Context, socket string, l load) (*measurement, error) {
	return together(ctx, l, func(ctx context.Context, until time.Time) (*measurement, error) {
		client, err := agentclient.New(socket, agentclient.WithConnections(1))
		if err != nil {
			return nil, err
		}
		defer func() { _ = client.Close() }()
		return repeat(until, func() error {
			_, err := client.Call(ctx, routeRef, json.RawMessage(routeArg))
			return err
		}), nil
	})
}

// repeat calls until the time is over, and once at least: a measurement without a call
// says nothing.
func repeat(until time.Time, call func() error) *measurement {
	m := &measurement{}
	for begin := time.Now(); ; {
		if err := call(); err != nil {
			m.failed++
		}
		end := time.Now()
		m.latency.add(end.Sub(begin), 1)
		m.calls++
		if begin = end; !begin.Before(until) {
			return m
		}
	}
}
