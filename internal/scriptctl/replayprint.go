package scriptctl

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/offline"
	"github.com/scriptorium-dev/scriptorium/internal/replay"
	"github.com/scriptorium-dev/scriptorium/script"
)

// replayView is the outcome of a replay in -o json and -o yaml.
type replayView struct {
	To            sideView         `json:"to"`
	From          *sideView        `json:"from,omitempty"` // absent if the log is the other side
	Lines         int64            `json:"lines"`
	Bad           int64            `json:"bad"`
	OtherScripts  int64            `json:"otherScripts"`
	Same          int64            `json:"same"`
	Different     int64            `json:"different"`
	NotComparable int64            `json:"notComparable"`
	Why           map[string]int64 `json:"why"`  // numbers of notComparable, by reason
	Read          map[string]int64 `json:"read"` // numbers of different that used state outside the record, by the state
	MaskedInputs  int64            `json:"maskedInputs"`
	MaskedResults int64            `json:"maskedResults"` // compared without the masked parts
	BadLines      []badLineView    `json:"badLines"`      // the first ones
	Differences   []differenceView `json:"differences"`   // the first ones
}

type sideView struct {
	Name    string        `json:"name"`
	Version uint64        `json:"version,omitempty"`
	Digest  script.Digest `json:"digest"`
}

type badLineView struct {
	File    string `json:"file"`
	Line    int64  `json:"line"`
	Message string `json:"message"`
}

type differenceView struct {
	File       string          `json:"file"`
	Line       int64           `json:"line"`
	DecisionID string          `json:"decisionId"`
	Time       time.Time       `json:"time"`
	Version    uint64          `json:"version"` // of the record
	From       outcomeView     `json:"from"`
	To         outcomeView     `json:"to"`
	Parts      []partView      `json:"parts"`
	More       bool            `json:"more,omitempty"` // more parts differ
	Read       []offline.State `json:"read,omitempty"`
}

type outcomeView struct {
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
}

type partView struct {
	Pointer string          `json:"pointer"`
	From    json.RawMessage `json:"from,omitempty"`
	To      json.RawMessage `json:"to,omitempty"`
}

// replayPrinter prints the progress and the result of a replay.
type replayPrinter struct {
	app   *app
	show  int // maximum number of decisions
	view  replayView
	shown int
	bads  int
}

func newReplayPrinter(a *app, to, from *replay.Version, show int) *replayPrinter {
	p := &replayPrinter{app: a, show: show, view: replayView{
		To: *viewOfSide(to), From: viewOfSide(from), BadLines: []badLineView{}, Differences: []differenceView{},
	}}
	return p
}

func viewOfSide(v *replay.Version) *sideView {
	if v == nil {
		return nil
	}
	return &sideView{Name: v.Name, Version: v.Number, Digest: v.Digest}
}

// maxBadLines is the number of bad lines that are printed.
const maxBadLines = 20

func (p *replayPrinter) bad(b replay.Bad) {
	if p.bads++; p.bads > maxBadLines {
		return
	}
	p.view.BadLines = append(p.view.BadLines, badLineView{File: b.File, Line: b.Line, Message: b.Message})
	p.app.warn(plain(fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Message)))
	if p.bads == maxBadLines {
		p.app.warn("more such lines are counted only")
	}
}

func (p *replayPrinter) progress(c *replay.Counts) {
	p.app.notice("%d lines read, %d decisions compared, %d of them differ", c.Lines, c.Compared(), c.Different)
}

func (p *replayPrinter) different(d *replay.Different) error {
	if p.shown++; p.shown > p.show {
		return nil
	}
	if p.app.output != formatTable {
		p.view.Differences = append(p.view.Differences, viewOfDifference(d))
		return nil
	}
	var text strings.Builder
	if p.shown == 1 {
		from := "the log"
		if p.view.From != nil {
			from = p.view.From.Name
		}
		fmt.Fprintf(&text, "--- %s\n+++ %s\n", from, p.view.To.Name)
	}
	fmt.Fprintf(&text, "@@ %s:%d %s decision %s of version %d @@\n", d.File, d.Line, d.Time.UTC().Format(time.RFC3339), plain(d.ID), d.Version)
	for _, part := range d.Parts {
		writePart(&text, "-", part.Pointer, part.From)
		writePart(&text, "+", part.Pointer, part.To)
	}
	if d.More {
		text.WriteString(" and more\n")
	}
	for _, side := range []struct {
		sign string
		of   replay.Decision
	}{{"-", d.From}, {"+", d.To}} {
		if side.of.Error != "" {
			fmt.Fprintf(&text, " %s error: %s\n", side.sign, clipped(plain(side.of.Error)))
		}
	}
	if len(d.Read) > 0 {
		fmt.Fprintf(&text, " the calls used what the log does not hold: %s\n", joined(d.Read))
	}
	return p.app.writeDiff(text.String())
}

// joined returns the names of states.
func joined(states []offline.State) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func writePart(w io.Writer, sign, pointer string, value json.RawMessage) {
	if value != nil {
		fmt.Fprintf(w, "%s%s %s\n", sign, plain(pointer), clipped(plain(string(value))))
	}
}

// clipped bounds the length of a text for one line.
func clipped(text string) string {
	const most = 400
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

func viewOfDifference(d *replay.Different) differenceView {
	v := differenceView{
		File: d.File, Line: d.Line, DecisionID: d.ID, Time: d.Time, Version: d.Version,
		From: outcomeView(d.From), To: outcomeView(d.To), More: d.More, Read: d.Read,
	}
	for _, part := range d.Parts {
		v.Parts = append(v.Parts, partView(part))
	}
	return v
}

// end prints the summary.
func (p *replayPrinter) end(c *replay.Counts) error {
	v := &p.view
	v.Lines, v.Bad, v.OtherScripts = c.Lines, c.Bad, c.Others
	v.Same, v.Different, v.NotComparable = c.Same, c.Different, c.NotComparable
	v.MaskedInputs, v.MaskedResults = c.Masked, c.Partly
	v.Why, v.Read = map[string]int64{}, map[string]int64{}
	for reason, n := range c.Why {
		v.Why[string(reason)] = n
	}
	for state, n := range c.Read {
		v.Read[string(state)] = n
	}
	a := p.app
	return a.print(v, func(w io.Writer) {
		if hidden := p.shown - p.show; hidden > 0 {
			fmt.Fprintf(w, "and %d more decisions that differ: --show prints more\n", hidden)
		}
		fmt.Fprintf(w, "%d same, %d different, %d not comparable%s\n", v.Same, v.Different, v.NotComparable, counted(v.Why))
		if len(v.Read) > 0 {
			fmt.Fprintf(w, "of those that differ, calls used what the log does not hold%s\n", counted(v.Read))
		}
		if v.MaskedInputs > 0 {
			fmt.Fprintf(w, "%d were compared with masks in their input\n", v.MaskedInputs)
		}
		if v.MaskedResults > 0 {
			fmt.Fprintf(w, "%d were compared without the masked parts of their result\n", v.MaskedResults)
		}
		fmt.Fprintf(w, "%d lines: %d of other scripts, %d that are no records\n", v.Lines, v.OtherScripts, v.Bad)
	})
}

// counted formats counts, the highest first: " (3 a, 1 b)".
func counted(counts map[string]int64) string {
	if len(counts) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], plain(name))
	}
	return " (" + strings.Join(names, ", ") + ")"
}
