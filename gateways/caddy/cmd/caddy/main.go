// Command caddy is Caddy with its standard modules and the module of Scriptorium: what
// xcaddy builds, from this tree.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/scriptorium-dev/scriptorium/gateways/caddy"
)

func main() { caddycmd.Main() }
