//go:build linux && cgo

package confine

const linkedWithC = true
