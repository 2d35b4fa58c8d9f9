package scriptctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/scriptorium-dev/scriptorium/script"
)

// The formats of --output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatJSON, formatYAML}

// moreFormats is the annotation of a command that prints in other formats, too, with commas between them.
const moreFormats = "formats"

// formatsOf returns the formats of a command.
func formatsOf(cmd *cobra.Command) []string {
	more := cmd.Annotations[moreFormats]
	if more == "" {
		return formats
	}
	return append(slices.Clone(formats), strings.Split(more, ",")...)
}

func checkFormat(cmd *cobra.Command, format string) error {
	known := formatsOf(cmd)
	if slices.Contains(known, format) {
		return nil
	}
	return usage(script.Errorf(script.Invalid, "--output", "%q is not a format: want %s", format, strings.Join(known, ", ")))
}

// print prints v as JSON or YAML, or else whatever table prints.
func (a *app) print(v any, table func(io.Writer)) error {
	switch a.output {
	case formatJSON:
		enc := json.NewEncoder(a.Out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case formatYAML:
		return writeYAML(a.Out, v)
	}
	table(a.Out)
	return nil
}

// printEach prints one of many values: a line of JSON, or a YAML document.
func (a *app) printEach(w io.Writer, v any) error {
	if a.output == formatYAML {
		fmt.Fprintln(w, "---")
		return writeYAML(w, v)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeYAML writes v with the fields that it has as JSON, in their order.
func writeYAML(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	// Not by the parser of YAML, which does not take all of JSON: no DEL, no long key.
	dec := json.NewDecoder(&buf)
	dec.UseNumber()
	doc, err := yamlNode(dec)
	if err != nil {
		return err
	}
	out := yaml.NewEncoder(w)
	out.SetIndent(2)
	if err := out.Encode(doc); err != nil {
		return err
	}
	return out.Close()
}

// yamlNode returns the next value of the decoder.
func yamlNode(dec *json.Decoder) (*yaml.Node, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		return yamlCollection(dec, t)
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: t}
		if t == "<<" || strings.ContainsFunc(t, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			n.Style = yaml.DoubleQuotedStyle // else a merge key, or a block that does not keep all line breaks
		}
		return n, nil
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}, nil
}

func yamlCollection(dec *json.Decoder, begin json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	if begin == '[' {
		n.Kind = yaml.SequenceNode
	}
	for dec.More() {
		part, err := yamlNode(dec)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, part)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := dec.Token() // that ends it
	return n, err
}

// columnGap is what columns leaves between two columns.
const columnGap = 3

// leastCell is what fit leaves of a cell at least.
const leastCell = 20

// narrow leaves out the last columns of a table that is wider than the terminal, but none up to the
// one that fit cuts.
func narrow(rows [][]string, column, width int) {
	for len(rows[0]) > column+1 {
		all := 0
		for i := range rows[0] {
			widest := 0
			for _, row := range rows {
				widest = max(widest, utf8.RuneCountInString(row[i]))
			}
			if i == column {
				widest = min(widest, leastCell)
			}
			all += widest + columnGap
		}
		if all-columnGap <= width {
			return
		}
		for i := range rows {
			rows[i] = rows[i][:len(rows[i])-1]
		}
	}
}

// fit cuts the cells of the column, so that no row gets wider than that.
func fit(rows [][]string, column, width int) {
	others := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			others[i] = max(others[i], utf8.RuneCountInString(cell)+columnGap)
		}
	}
	room := width
	for i, n := range others {
		if i != column {
			room -= n
		}
	}
	room = max(room, leastCell)
	for _, row := range rows {
		if runes := []rune(row[column]); len(runes) > room {
			row[column] = string(runes[:room-1]) + "…"
		}
	}
}

// columns writes rows aligned; the first is the heading.
func columns(w io.Writer, rows [][]string) {
	var aligned bytes.Buffer
	tw := tabwriter.NewWriter(&aligned, 0, 0, columnGap, ' ', 0)
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	for _, row := range rows {
		// A tab after each cell, also an empty one: the cells of a column are aligned only
		// between rows that have it.
		fmt.Fprintln(tw, strings.Join(row, "\t")+strings.Repeat("\t", width-len(row)))
	}
	_ = tw.Flush() // into memory
	for line := range strings.Lines(aligned.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// grid aligns rows that are drawn again and again. Its columns stand close, and
// never get narrower: what is drawn over must not jump.
type grid struct {
	widths []int
}

func (g *grid) lines(rows [][]string) []string {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(g.widths) {
				g.widths = append(g.widths, 0)
			}
			g.widths[i] = max(g.widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			fmt.Fprintf(&b, "%-*s  ", g.widths[j], cell)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// clock prints a moment in the reader's time zone.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// plain makes what a stranger wrote fit for one line of a terminal.
func plain(s string) string { return printable(strings.NewReplacer("\n", " ", "\t", " ").Replace(s)) }

// printable replaces control characters, except line ends and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return plain(s)
}
