// Package api has the definitions of what scripts can call beside Lua's own functions. The Lua language server and
// scriptctl lint read them.
package api

import _ "embed" // the definitions

// Definitions is scriptorium.lua.
//
//go:embed scriptorium.lua
var Definitions string
