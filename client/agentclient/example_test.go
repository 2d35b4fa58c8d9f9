package agentclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/gatewaytest"
	"github.com/scriptorium-dev/scriptorium/agent/gateway/grpcsock"
	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// exampleAgent serves acme/route, which sends /admin to one upstream and
// everything else to another.
func exampleAgent() (socket string, stop func()) {
	x := gatewaytest.New()
	x.Set("acme/route", func(_ context.Context, call *gateway.Call) ([][]byte, error) {
		var request struct{ Path string }
		if err := json.Unmarshal(call.Args[0], &request); err != nil {
			return nil, err
		}
		if request.Path == "/admin" {
			return [][]byte{[]byte(`{"upstream":"back-office"}`)}, nil
		}
		return [][]byte{[]byte(`{"upstream":"shop"}`)}, nil
	})
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		log.Fatal(err)
	}
	socket = filepath.Join(dir, "grpc.sock")
	l, err := gateway.Listen(socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpcsock.New(grpcsock.Options{Executor: x, Logger: slog.New(slog.DiscardHandler)})
	go server.Serve(l)
	return socket, func() {
		_ = server.Shutdown(context.Background())
		_ = os.RemoveAll(dir)
	}
}

func Example() {
	socket, stop := exampleAgent() // usually /run/scriptorium/grpc.sock
	defer stop()

	client, err := agentclient.New(socket)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	result, err := client.Call(ctx, "acme/route", map[string]any{"path": "/admin"})
	if err != nil {
		log.Fatal(err)
	}
	var decision struct {
		Upstream string `json:"upstream"`
	}
	if err := result.Decode(0, &decision); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s (version %d)\n", decision.Upstream, result.Version)
	// Output: back-office (version 7)
}

func ExampleClient_Call_errors() {
	socket, stop := exampleAgent()
	defer stop()
	client, err := agentclient.New(socket)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	_, err = client.Call(context.Background(), "acme/rout", map[string]any{"path": "/"})
	switch script.KindOf(err) {
	case script.NotFound, script.Disabled:
		fmt.Println("no script, so no opinion: the request goes on")
	case script.Overloaded, script.Unavailable, script.Timeout:
		fmt.Println("no answer in time: the gateway decides whether to fail open")
	default:
		fmt.Println("the script is wrong:", err)
	}
	// Output: no script, so no opinion: the request goes on
}

func ExampleClient_List() {
	socket, stop := exampleAgent()
	defer stop()
	client, err := agentclient.New(socket)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	scripts, err := client.List(context.Background(), agentclient.ListOptions{Event: "http-request"})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range scripts {
		if s.Name.Script == "route" {
			fmt.Println(s.Name, "version", s.Active.Number)
		}
	}
	// Output: acme/route version 7
}
