// Package picture draws a dashboard with what a Prometheus has, as an SVG for pages where there is no
// Grafana. It shows what Grafana would: the same panels, at the same places, from the same queries.
package picture

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
)

// Config says what a picture shows.
type Config struct {
	Prometheus v1.API
	From, To   time.Time
	Rate       string // the range of rates, such as 30s
}

// The picture has the proportions of a page of Grafana.
const (
	unitWidth, unitHeight = 50, 26
	width                 = 24 * unitWidth
	header                = 44
	points                = 90 // of a line
)

// Draw returns the picture of a dashboard.
func Draw(ctx context.Context, d dashboards.Dashboard, cfg Config) ([]byte, error) {
	c := &canvas{}
	y := 0
	for _, row := range d.Rows {
		end, err := c.row(ctx, d, row, y, cfg)
		if err != nil {
			return nil, err
		}
		y = end
	}
	var out bytes.Buffer
	height := header + y*unitHeight + 6
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Helvetica,Arial,sans-serif"><style>%s</style>`, width, height, style)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#f4f5f5"/>`, width, height)
	fmt.Fprintf(&out, `<text x="8" y="28" class="page">%s</text>`, escape(d.Title))
	out.Write(c.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

// row draws a row and returns where the next one begins. A row without any data is left out.
func (c *canvas) row(ctx context.Context, d dashboards.Dashboard, row dashboards.Row, y int, cfg Config) (end int, err error) {
	part := &canvas{}
	part.text(8, header+y*unitHeight+18, "row", row.Title)
	places, end := row.Places(y + 1)
	for i, p := range row.Panels {
		at := places[i]
		frame := box{at.X*unitWidth + 3, header + at.Y*unitHeight + 3, at.Width*unitWidth - 6, at.Height*unitHeight - 6}
		if err := part.panel(ctx, d, p, frame, cfg); err != nil {
			return 0, fmt.Errorf("%s: panel %q: %w", d.Name, p.Title, err)
		}
	}
	if !part.data {
		return y, nil
	}
	c.Write(part.Bytes())
	return end, nil
}

const style = `text{font-size:11px;fill:#24292e}.page{font-size:18px;font-weight:500}.row{font-size:13px;font-weight:bold}` +
	`.title{font-weight:bold}.axis,.legend{font-size:9px;fill:#555}.value{font-size:26px;font-weight:bold}polyline{fill:none;stroke-width:1.4}`

// box is a part of the picture.
type box struct{ x, y, width, height int }

// canvas is the picture so far.
type canvas struct {
	bytes.Buffer
	data bool // it shows some
}

func (c *canvas) text(x, y int, class, text string) {
	fmt.Fprintf(c, `<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, escape(text))
}

// end writes a text that ends at x.
func (c *canvas) end(x, y int, class, text string) {
	fmt.Fprintf(c, `<text x="%d" y="%d" class="%s" text-anchor="end">%s</text>`, x, y, class, escape(text))
}

func escape(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a buffer takes all
	return out.String()
}

func (c *canvas) panel(ctx context.Context, d dashboards.Dashboard, p dashboards.Panel, at box, cfg Config) error {
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" rx="2" fill="#fff" stroke="#dcdfe3"/>`, at.x, at.y, at.width, at.height)
	c.text(at.x+8, at.y+16, "title", clip(p.Title, at.width-16, 6))
	if p.Kind == dashboards.Table {
		return c.table(ctx, d, p, at, cfg)
	}
	lines, err := query(ctx, d, p, cfg)
	if err != nil {
		return err
	}
	c.data = c.data || len(lines) > 0
	if p.Kind == dashboards.Stat {
		c.stat(p, at, lines)
		return nil
	}
	if len(lines) == 0 {
		c.text(at.x+at.width/2-20, at.y+at.height/2, "axis", "no data")
		return nil
	}
	c.lines(p, at, lines, cfg)
	return nil
}

// clip cuts a text to a width, for letters of about that size.
func clip(text string, width, letter int) string {
	if most := max(4, width/letter); len([]rune(text)) > most {
		return string([]rune(text)[:most-1]) + "…"
	}
	return text
}
