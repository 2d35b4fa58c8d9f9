// Command hello allows each request, and sets a header.
package main

import (
	scriptorium "github.com/scriptorium-dev/scriptorium/sdk/go"
)

func init() { scriptorium.Handle(handle) }

func handle(request *scriptorium.Request) (*scriptorium.Decision, error) {
	return scriptorium.Allow().SetHeader("x-hello", "hello "+request.RemoteAddr), nil
}

func main() {}
