package registryclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/script"
)

// startRegistry stands for a registry that runs already.
func startRegistry() (target string, stop func()) {
	dir, err := os.MkdirTemp("", "rc")
	if err != nil {
		log.Fatal(err)
	}
	target, stopServer := serve(dir, &fakeRegistry{})
	return target, func() { stopServer(); os.RemoveAll(dir) }
}

// Publish a script, and go back to its first version.
func Example() {
	target, stop := startRegistry() // "unix:.scriptorium/registry.sock"
	defer stop()
	ctx := context.Background()

	client, err := registryclient.Dial(target)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	name := script.Name{Tenant: "acme", Script: "greet"}
	write := registryclient.Write{Author: "ada", Note: "a friendlier greeting"}
	for _, greeting := range []string{"Hello", "Hi"} {
		published, err := client.Publish(ctx, registryclient.PublishRequest{
			Name:   name,
			Source: fmt.Appendf(nil, "function handle(name) return %q .. name end", greeting+", "),
			Write:  write,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, "v", published.Version.Number)
	}

	release, _, err := client.Pin(ctx, name, 1, write)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("active:", release.Active.Number, "pinned:", release.Pinned)
	// Output:
	// acme/greet v 1
	// acme/greet v 2
	// active: 1 pinned: true
}

// The kind of an error says what to do about it.
func ExampleClient_Publish_refused() {
	target, stop := startRegistry()
	defer stop()
	client, err := registryclient.Dial(target)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	_, err = client.Publish(context.Background(), registryclient.PublishRequest{
		Name:   script.Name{Tenant: "acme", Script: "greet"},
		Source: []byte("broken"),
		Write:  registryclient.Write{Author: "ada"},
	})
	if e, ok := errors.AsType[*script.Error](err); ok && e.Kind == script.Script {
		fmt.Printf("line %d, column %d: %s\n", e.Line, e.Column, e.Message)
	}
	// Output:
	// line 3, column 7: does not compile
}

// Wait until every agent runs what was published.
func ExampleClient_WatchStatus() {
	target, stop := startRegistry()
	defer stop()
	client, err := registryclient.Dial(target)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for fleet, err := range client.WatchStatus(context.Background(), script.Name{Tenant: "acme", Script: "greet"}) {
		if err != nil {
			log.Fatal(err)
		}
		s := fleet.Scripts[0]
		fmt.Printf("%d of %d agents\n", s.Active, s.Desired)
		if s.Converged {
			break
		}
	}
	// Output:
	// 0 of 2 agents
	// 1 of 2 agents
	// 2 of 2 agents
}
