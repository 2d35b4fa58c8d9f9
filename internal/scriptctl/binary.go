package scriptctl

import (
	"bytes"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/client/manifest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// sourceDiff is unified for sources, which may be no text: those are named by their sizes and digests.
func sourceDiff(from string, before *script.Edition, to string, after *script.Edition) string {
	if isText(before) && isText(after) {
		return unified(from, before.Source, to, after.Source)
	}
	if bytes.Equal(before.Source, after.Source) {
		return ""
	}
	return fmt.Sprintf("Binary sources differ: %s (%s) and %s (%s)\n", from, inWords(before), to, inWords(after))
}

func isText(e *script.Edition) bool { return script.IsText(e.Engine, e.Source) || len(e.Source) == 0 }

// inWords says which source it is.
func inWords(e *script.Edition) string {
	if len(e.Source) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d bytes, %s", len(e.Source), script.DigestOf(e.Source))
}

// manifestDiff compares with what a manifest has. A source in an OCI registry is not fetched to be compared: its
// reference has its digest, and is a setting.
func manifestDiff(from string, latest *script.Edition, m *manifest.Manifest) string {
	if m.Settings.Artifact != "" {
		return ""
	}
	next := script.Edition{Source: m.Source}
	next.Engine = m.Engine
	return sourceDiff(from, latest, sourceName(m), &next)
}

// digestOf returns the digest of the manifest's source; zero if it is in an OCI registry.
func digestOf(m *manifest.Manifest) script.Digest {
	if m.Settings.Artifact != "" {
		return script.Digest{}
	}
	return script.DigestOf(m.Source)
}

// forTerminal returns an error if the source is no text, which would be commands to a terminal.
func (a *app) forTerminal(e *script.Edition) error {
	if !a.OutTerminal || isText(e) {
		return nil
	}
	return usage(fmt.Errorf("the source is not text (%s): write it to a file, with > FILE", inWords(e)))
}
