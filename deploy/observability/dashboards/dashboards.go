// Package dashboards defines the dashboards of Scriptorium, and renders them as Grafana reads them.
package dashboards

import "strings"

// Dashboard is a page of panels.
type Dashboard struct {
	Name               string // of the file, and the end of the uid
	Title, Description string
	Variables          []Variable
	Rows               []Row
}

// Variable is chosen at the top of the page. All values are chosen at first.
type Variable struct {
	Name, Label string
	// Metric has the values in the label that is called as the variable, or as From says.
	Metric, From string
}

// Row is a part of a page with a heading.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its queries.
type Kind string

// Lines are over time, a Stat is the last value, and a Table has a column for each query and each label.
const (
	Lines Kind = "timeseries"
	Stat  Kind = "stat"
	Table Kind = "table"
)

// Panel shows queries.
type Panel struct {
	Title, Description string
	Kind               Kind
	Unit               string // of Grafana, such as s
	Width              int    // of 24; 0 is a third of the page, and a sixth for a Stat
	Queries            []Query
	Stacked            bool
	// Bad is the value from which, or with Falls below which, a Stat is red. Nil has no color.
	Bad   *float64
	Falls bool
	// Labels are the columns of a Table, in their order, before those of the queries.
	Labels []string
}

// Query is one of a panel. Legend names its lines, as Grafana writes it, or the column of a table.
type Query struct{ Expr, Legend string }

// All are the dashboards.
func All() []Dashboard { return []Dashboard{fleet(), rollout(), script(), registry(), agent()} }

// installation selects the chosen installations. Where series have none of the labels, .* matches that.
const installation = `cluster=~"$cluster",namespace=~"$namespace"`

// Rate is what $R stands for in an expression: the range of rates, which Grafana chooses.
const Rate = "$__rate_interval"

// expand replaces $S by the selector of an installation, and $R by the range of rates.
func expand(expr string) string {
	lines := strings.Split(strings.TrimSpace(expr), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.NewReplacer("$S", installation, "$R", Rate).Replace(strings.Join(lines, "\n"))
}

// Expanded is the expression with all abbreviations replaced. It has Grafana's variables in it.
func (q Query) Expanded() string { return expand(q.Expr) }

// For is the expression with the range of rates, and with all values of the dashboard's variables.
func (q Query) For(d Dashboard, rate string) string {
	replace := []string{Rate, rate}
	for _, v := range d.Variables {
		replace = append(replace, `"$`+v.Name+`"`, `".*"`)
	}
	return strings.NewReplacer(replace...).Replace(q.Expanded())
}

// variables are those of every dashboard.
func variables(metric string, more ...Variable) []Variable {
	return append([]Variable{{Name: "cluster", Label: "Cluster", Metric: metric}, {Name: "namespace", Label: "Namespace", Metric: metric}}, more...)
}

// width of the panel.
func (p Panel) width() int {
	switch {
	case p.Width > 0:
		return p.Width
	case p.Kind == Stat:
		return 4
	}
	return 8
}

// height of the panel, in Grafana's rows.
func (p Panel) height() int {
	if p.Kind == Stat {
		return 4
	}
	return 7
}

// Place is where a panel is, in a page that is 24 wide.
type Place struct{ X, Y, Width, Height int }

// Places returns where the panels of the row are, from y on, and where the next row begins.
func (r Row) Places(y int) (places []Place, end int) {
	x, tallest := 0, 0
	for _, p := range r.Panels {
		if x+p.width() > 24 {
			x, y, tallest = 0, y+tallest, 0
		}
		places = append(places, Place{x, y, p.width(), p.height()})
		x, tallest = x+p.width(), max(tallest, p.height())
	}
	return places, y + tallest
}

// lines is a panel of lines.
func lines(title, unit string, queries ...Query) Panel {
	return Panel{Title: title, Kind: Lines, Unit: unit, Queries: queries}
}

// value is a panel of one value.
func value(title, unit, expr string) Panel {
	return Panel{Title: title, Kind: Stat, Unit: unit, Queries: []Query{{Expr: expr}}}
}

// says adds what the panel means.
func (p Panel) says(description string) Panel { p.Description = description; return p }

// wide sets the width.
func (p Panel) wide(width int) Panel { p.Width = width; return p }

// stacked puts the lines on each other.
func (p Panel) stacked() Panel { p.Stacked = true; return p }

// badFrom makes the stat red from the value on.
func (p Panel) badFrom(value float64) Panel { p.Bad = &value; return p }

// badBelow makes the stat red below the value.
func (p Panel) badBelow(value float64) Panel { p.Bad, p.Falls = &value, true; return p }

// quantiles are of a classic histogram of seconds.
func quantiles(metric, selector, title string) Panel {
	p := lines(title, "s")
	for _, q := range []struct{ value, name string }{{"0.5", "median"}, {"0.95", "p95"}, {"0.99", "p99"}} {
		p.Queries = append(p.Queries, Query{`histogram_quantile(` + q.value + `, sum by (le) (rate(` + metric + `_bucket{` + selector + `}[$R])))`, q.name})
	}
	return p
}
