package picture

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scriptorium-dev/scriptorium/deploy/observability/dashboards"
)

// colors are those of Grafana's classic palette.
var colors = []string{"#56a64b", "#3274d9", "#e0b400", "#e02f44", "#8f3bb8", "#ff780a", "#37872d", "#1f60c4", "#8ab8ff", "#c4162a"}

func color(i int) string { return colors[i%len(colors)] }

// stat draws the last value of the first line, and how it came about.
func (c *canvas) stat(p dashboards.Panel, at box, lines []line) {
	value, fill := math.NaN(), "#24292e"
	if len(lines) > 0 {
		value = lines[0].last()
	}
	text := "–"
	if !math.IsNaN(value) {
		text = format(value, p.Unit)
		switch {
		case p.Bad == nil:
		case (value >= *p.Bad) != p.Falls:
			fill = colors[3]
		default:
			fill = colors[0]
		}
		inner := box{at.x + 6, at.y + at.height - 26, at.width - 12, 22}
		c.polyline(lines[0].values, inner, scale{min(0, lowest(lines)), highest(lines)}, fill)
	}
	fmt.Fprintf(c, `<text x="%d" y="%d" class="value" text-anchor="middle" style="fill:%s">%s</text>`, at.x+at.width/2, at.y+at.height/2+14, fill, escape(text))
}

// scale is of an axis.
type scale struct{ low, high float64 }

// y is where the value is in the box.
func (s scale) y(v float64, in box) float64 {
	if s.high <= s.low {
		return float64(in.y + in.height)
	}
	return float64(in.y) + float64(in.height)*(s.high-v)/(s.high-s.low)
}

func highest(lines []line) (high float64) {
	for _, l := range lines {
		for _, v := range l.values {
			if v > high {
				high = v
			}
		}
	}
	return high
}

func lowest(lines []line) float64 {
	low := math.Inf(1)
	for _, l := range lines {
		for _, v := range l.values {
			if v < low {
				low = v
			}
		}
	}
	return low
}

// mostNamed are the lines that have room in a legend.
const mostNamed = 9

// lines draws them with axes and a legend.
func (c *canvas) lines(p dashboards.Panel, at box, lines []line, cfg Config) {
	if p.Stacked {
		lines = stack(lines)
	}
	s := scale{min(0, lowest(lines)), nice(highest(lines))}
	below := c.legend(at, lines)
	in := box{at.x + 46, at.y + 26, at.width - 58, at.height - 26 - 16 - below}
	for i := range 4 {
		v := s.low + (s.high-s.low)*float64(i)/3
		y := int(s.y(v, in))
		fmt.Fprintf(c, `<path d="M%d %dh%d" stroke="#e9ebee"/>`, in.x, y, in.width)
		c.end(in.x-4, y+3, "axis", format(v, p.Unit))
	}
	for i := range 4 {
		d := cfg.To.Sub(cfg.From) * time.Duration(i) / 3
		c.end(in.x+in.width*i/3+12, in.y+in.height+12, "axis", ago(cfg.To.Sub(cfg.From)-d))
	}
	for i, l := range slices.Backward(lines) { // of stacked lines, one that adds nothing is below
		c.polyline(l.values, in, s, color(i))
	}
}

// ago is a time on the axis.
func ago(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	if d >= 2*time.Minute {
		return "-" + strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + " min"
	}
	return "-" + strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
}

// legend draws the names, from the bottom up, and returns how much room they take.
func (c *canvas) legend(at box, lines []line) (height int) {
	const lineHeight, dash = 12, 16
	type entry struct {
		name, color string
		width       int
	}
	var all []entry
	for i, l := range lines {
		name := clip(l.name, at.width/2, 5)
		if i == mostNamed && len(lines) > mostNamed+1 {
			all = append(all, entry{fmt.Sprintf("and %d more", len(lines)-mostNamed), "#999", 80})
			break
		}
		all = append(all, entry{name, color(i), dash + 5*len([]rune(name)) + 8})
	}
	rows, x := 1, 0
	for _, e := range all {
		if x+e.width > at.width-16 && x > 0 {
			rows, x = rows+1, 0
		}
		x += e.width
	}
	x = 0
	y := at.y + at.height - 6 - (rows-1)*lineHeight
	for _, e := range all {
		if x+e.width > at.width-16 && x > 0 {
			x, y = 0, y+lineHeight
		}
		fmt.Fprintf(c, `<path d="M%d %dh10" stroke="%s" stroke-width="3"/>`, at.x+8+x, y-3, e.color)
		c.text(at.x+8+x+dash-2, y, "legend", e.name)
		x += e.width
	}
	return rows*lineHeight + 4
}

// polyline draws the values. A gap in them interrupts it.
func (c *canvas) polyline(values []float64, in box, s scale, stroke string) {
	var run []string
	flush := func() {
		if len(run) == 1 {
			run = append(run, run[0])
		}
		if len(run) > 0 {
			fmt.Fprintf(c, `<polyline stroke="%s" points="%s"/>`, stroke, strings.Join(run, " "))
		}
		run = nil
	}
	for i, v := range values {
		if math.IsNaN(v) {
			flush()
			continue
		}
		x := float64(in.x) + float64(in.width)*float64(i)/float64(max(1, len(values)-1))
		run = append(run, strconv.Itoa(int(x+0.5))+","+strconv.FormatFloat(s.y(v, in), 'f', 1, 64))
	}
	flush()
}

// stack puts each line on those before it.
func stack(lines []line) []line {
	stacked := make([]line, len(lines))
	var sum []float64
	for i, l := range lines {
		if sum == nil {
			sum = make([]float64, len(l.values))
		}
		stacked[i] = line{l.name, slices.Clone(l.values)}
		for k, v := range l.values {
			if !math.IsNaN(v) {
				sum[k] += v
				stacked[i].values[k] = sum[k]
			}
		}
	}
	return stacked
}

// nice is the next round number, so that the axis has room.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	size := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.5, 2, 3, 4.5, 6, 7.5, 9, 12} {
		if m*size >= v {
			return m * size
		}
	}
	return v
}

func (c *canvas) table(ctx context.Context, d dashboards.Dashboard, p dashboards.Panel, at box, cfg Config) error {
	all, err := rows(ctx, d, p, cfg)
	if err != nil {
		return err
	}
	c.data = c.data || len(all) > 0
	columns := slices.Clone(p.Labels)
	for _, q := range p.Queries {
		columns = append(columns, q.Legend)
	}
	if len(all) == 0 {
		c.text(at.x+at.width/2-20, at.y+at.height/2, "axis", "no data")
	}
	apart, y := (at.width-16)/len(columns), at.y+34
	for i, name := range columns {
		c.text(at.x+8+i*apart, y, "title", name)
	}
	for _, r := range all {
		if y += 15; y > at.y+at.height-6 {
			break
		}
		for i, name := range columns {
			c.text(at.x+8+i*apart, y, "cell", clip(r[name], apart-8, 6))
		}
	}
	return nil
}

// format writes a value as Grafana does, about.
func format(v float64, unit string) string {
	switch unit {
	case "s":
		return seconds(v)
	case "percentunit":
		return number(100*v) + "%"
	case "bytes":
		for _, suffix := range []string{" B", " KiB", " MiB", " GiB"} {
			if math.Abs(v) < 1024 {
				return number(v) + suffix
			}
			v /= 1024
		}
		return number(v) + " TiB"
	case "reqps":
		return thousands(v) + "/s"
	case "cps", "wps", "ops":
		return thousands(v) + "/s"
	}
	return thousands(v)
}

func seconds(v float64) string {
	switch abs := math.Abs(v); {
	case v == 0:
		return "0 s"
	case abs < 1e-3:
		return number(v*1e6) + " µs"
	case abs < 1:
		return number(v*1e3) + " ms"
	case abs < 120:
		return number(v) + " s"
	case abs < 2*3600:
		return number(v/60) + " min"
	case abs < 48*3600:
		return number(v/3600) + " h"
	}
	return number(v/86400) + " d"
}

func thousands(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1e9:
		return number(v/1e9) + "G"
	case abs >= 1e6:
		return number(v/1e6) + "M"
	case abs >= 1e4:
		return number(v/1e3) + "k"
	}
	return number(v)
}

// number has three digits or so.
func number(v float64) string {
	if math.Abs(v) >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
