package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// table prints each step as it is done, so that somebody watching sees what is
// going on.
type table struct {
	out  io.Writer
	step int
}

const (
	whatWidth  = 46
	proofWidth = 62
)

func (t *table) head() {
	fmt.Fprintf(t.out, "%3s  %-*s  %-*s  %s\n", "", whatWidth, "what happens", proofWidth, "what was seen", "took")
	fmt.Fprintln(t.out, strings.Repeat("─", 5+whatWidth+2+proofWidth+2+8))
}

func (t *table) row(what, proof string, took time.Duration) {
	t.step++
	fmt.Fprintf(t.out, "%3d  %-*s  %-*s  %s\n", t.step, whatWidth, what, proofWidth, proof, Milliseconds(took))
}

func (t *table) failed(what string, err error) {
	t.step++
	fmt.Fprintf(t.out, "%3d  %-*s  FAILED: %v\n", t.step, whatWidth, what, err)
}

// Milliseconds prints d as people compare such times: "6.1 ms", "1.3 s".
func Milliseconds(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
