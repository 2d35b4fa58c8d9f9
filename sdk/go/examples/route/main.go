// Command route chooses the upstream of a request, by the path and a header: see ../../../README.md.
package main

import (
	"strings"

	scriptorium "github.com/scriptorium-dev/scriptorium/sdk/go"
)

func init() { scriptorium.Handle(handle) }

func handle(request *scriptorium.Request) (*scriptorium.Decision, error) {
	upstream := choose(request, scriptorium.Config())
	// A value of the tenant moves an upstream without a new version.
	if moved, ok := scriptorium.KVGet("upstreams/" + upstream); ok {
		upstream = moved
	}
	return scriptorium.Allow().Upstream(upstream), nil
}

// choose takes the first prefix that fits, so the longer ones come first in the config.
func choose(request *scriptorium.Request, config scriptorium.Value) string {
	for _, route := range config.Get("routes").Items() {
		if strings.HasPrefix(request.Path, route.Get("prefix").Text()) {
			return route.Get("upstream").Text()
		}
	}
	if request.Header("x-beta") == "yes" {
		return config.Get("beta").Text()
	}
	return config.Get("default").Text()
}

func main() {}
