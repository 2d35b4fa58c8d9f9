package spopsock

import (
	"context"
	"testing"

	"github.com/scriptorium-dev/scriptorium/agent/gateway"
	"github.com/scriptorium-dev/scriptorium/script"
)

// TestEvents: a message names an event and a tenant in place of a script.
func TestEvents(t *testing.T) {
	x := deciding(`{"headers":{"append":{"x-a":"2"}}}`)
	x.SetTrigger("acme/d", script.Trigger{Event: "pre", Match: script.Match{Methods: []string{"GET"}}})
	x.Set("acme/first", func(context.Context, *gateway.Call) ([][]byte, error) {
		return [][]byte{[]byte(`{"headers":{"set":{"x-a":"1"}}}`)}, nil
	})
	x.SetTrigger("acme/first", script.Trigger{Event: "pre", Priority: 1, Match: script.Match{Methods: []string{"GET"}}})
	_, path := serve(t, Options{Executor: x})
	c := connect(t, path, "")
	for i, tt := range []struct {
		args []arg
		want string
	}{
		{[]arg{text("event", "pre"), text("tenant", "acme"), text("method", "GET")}, "allow=true chain=first@7, d@7 req.add.x_a=2 req.x_a=1 request==x-a +x-a"},
		{[]arg{text("event", "pre"), text("tenant", "acme"), text("method", "PUT")}, "allow=true chain=none"},
		{[]arg{text("event", "other"), text("tenant", "acme")}, "allow=false body=no decision\n reason=NOTFOUND status=503"},
		{[]arg{text("event", "pre")}, "allow=false body=no decision\n reason=INVALID status=503"},
		{[]arg{text("event", "pre"), text("tenant", "acme"), text("script", "acme/d"), text("fail", "open")}, "allow=false body=no decision\n reason=INVALID status=503"},
	} {
		c.send(ask(uint64(i+1), tt.args...))
		c.expectAnswer(uint64(i+1), tt.want)
	}
}
