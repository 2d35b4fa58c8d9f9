package registryclient

import (
	"cmp"
	"fmt"

	"github.com/scriptorium-dev/scriptorium/script"
)

// PinnedVersion returns the version that the script was pinned at until this publish; 0 if
// it was not, or still is.
func (p *Published) PinnedVersion() uint64 {
	if p.Unpinned == nil {
		return 0
	}
	return cmp.Or(p.Unpinned.Candidate, p.Unpinned.Version) // one may be pinned before it is active
}

// Unpinning says which pin the publish ended, what runs instead, and how to return; "" if it
// ended none.
func (p *Published) Unpinning() string {
	if p.Unpinned == nil {
		return ""
	}
	was, did, live, stays, onTrial := "was", "unpinned it", "is live", "stays live", "is on trial, and live once it has passed"
	if p.DryRun {
		was, did, live, stays, onTrial = "is", "would unpin it", "would be live", "would stay live", "would be on trial, and live once it has passed"
	}
	pinned, now := p.PinnedVersion(), p.Release.Active.Number
	text := fmt.Sprintf("%s %s pinned at v%d%s", p.Release.Name, was, pinned, byWhom(p.Unpinned))
	if p.Unpinned.Candidate != 0 {
		text += fmt.Sprintf(", which %s still a candidate", was)
	}
	text += fmt.Sprintf("; this publish %s, and ", did)
	switch c := p.Release.Candidate; {
	case c != nil && c.Failed == "":
		text += fmt.Sprintf("v%d %s", c.Version.Number, onTrial)
	case p.Release.Untried():
		text += "nothing " + live
	case now == pinned:
		text += fmt.Sprintf("v%d %s until the next version", now, stays)
	default:
		text += fmt.Sprintf("v%d %s", now, live)
	}
	if p.DryRun {
		return fmt.Sprintf("%s. To keep the pin: version: %d in the manifest", text, pinned)
	}
	return text + p.wayBack()
}

// wayBack says how to have run again what ran before. To pin a candidate would skip its
// tests.
func (p *Published) wayBack() string {
	switch before := p.Unpinned.Version; p.Unpinned.Candidate {
	case 0:
		return fmt.Sprintf(". To return: scriptctl pin %s %d", p.Release.Name, before)
	case before: // nothing ran
		return ""
	default:
		return fmt.Sprintf(". To return to v%d: scriptctl pin %s %d", before, p.Release.Name, before)
	}
}

// byWhom says who made the change, and why, as far as that is known.
func byWhom(e *script.HistoryEntry) string {
	switch {
	case e.Author == "":
		return ""
	case e.Note == "":
		return " by " + e.Author
	}
	return fmt.Sprintf(" by %s (%q)", e.Author, e.Note)
}
