package rego

import (
	"bytes"

	"github.com/scriptorium-dev/scriptorium/engine"
	"github.com/scriptorium-dev/scriptorium/script"
)

// isBundle reports whether the source is gzipped.
func isBundle(code []byte) bool { return bytes.HasPrefix(code, []byte{0x1f, 0x8b}) }

func readBundle(engine.Source) (sources, *script.Error) {
	return sources{}, script.Errorf(script.Invalid, "source", "bundles are not supported")
}
