// Package api has the description of the scripts' API for the Lua language server.
package api

import _ "embed" // of the description

// LanguageServer is scriptorium.lua.
//
//go:embed scriptorium.lua
var LanguageServer []byte
