//go:build !race

package suite_test

// thousand is how many LuaScripts come at once.
const thousand = 1000
