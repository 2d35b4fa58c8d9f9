// Package flame draws stacks as a flame graph: an SVG image that needs nothing else, and runs nothing.
// Names may be a stranger's text.
package flame

import (
	"bufio"
	"cmp"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stack is where something was, the outermost first.
type Stack struct {
	Frames []string
	Value  uint64
}

// Graph is what to draw.
type Graph struct {
	Title  string
	Root   string // what all stacks are in
	Unit   string // of values
	Stacks []Stack
}

// How it looks, in pixels.
const (
	width     = 1200
	margin    = 10
	rowHeight = 18
	charWidth = 7 // of the font, about
	titleRow  = 34
	// thinnest is the least width of a box. What is thinner is in the box below it alone.
	thinnest = 2
	// deepest is how many rows there are at most.
	deepest = 128
	// longest is how many characters of a name are in the image.
	longest = 200
)

// node is a frame with all that was called from it.
type node struct {
	name     string
	value    uint64
	children map[string]*node
}

func (n *node) child(name string) *node {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	c := n.children[name]
	if c == nil {
		c = &node{name: name}
		n.children[name] = c
	}
	return c
}

// SVG writes the graph. Boxes stand on what called them, the wider the more they took; beside each
// other they are in the order of their names.
func (g *Graph) SVG(w io.Writer) error {
	root := &node{name: g.Root}
	for _, s := range g.Stacks {
		at := root
		at.value += s.Value
		for _, name := range s.Frames[:min(len(s.Frames), deepest-1)] {
			at = at.child(name)
			at.value += s.Value
		}
	}
	out := &image{w: bufio.NewWriter(w), unit: g.Unit, all: root.value}
	out.rows = out.height(root)
	height := titleRow + out.rows*rowHeight + margin
	out.printf(`<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="monospace" font-size="12">
<style>rect{stroke:#fff;stroke-width:.5}g:hover rect{stroke:#000}text{pointer-events:none}</style>
<rect x="0" y="0" width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="22" font-size="15">%s</text>
`, width, height, width, height, margin, text(g.Title))
	if root.value > 0 {
		out.draw(root, margin, width-2*margin, 0)
	}
	out.printf("</svg>\n")
	if out.err != nil {
		return out.err
	}
	return out.w.Flush()
}

// image is what is drawn to.
type image struct {
	w    *bufio.Writer
	unit string
	all  uint64
	rows int
	err  error
}

func (i *image) printf(format string, args ...any) {
	if i.err == nil {
		_, i.err = fmt.Fprintf(i.w, format, args...)
	}
}

// share returns what part of all it is, of a width.
func (i *image) share(value uint64, of float64) float64 { return of * float64(value) / float64(i.all) }

// height returns how many rows the node takes with what stands on it.
func (i *image) height(n *node) int {
	highest := 0
	for _, c := range n.children {
		if i.share(c.value, width-2*margin) >= thinnest {
			highest = max(highest, i.height(c))
		}
	}
	return 1 + highest
}

// draw draws the node, and what stands on it.
func (i *image) draw(n *node, x, wide float64, row int) {
	y := titleRow + (i.rows-1-row)*rowHeight
	i.printf(`<g><title>%s: %d %s, %.2f %%</title><rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/>`,
		text(n.name), n.value, text(i.unit), i.share(n.value, 100), x, y, wide, rowHeight-1, colour(n.name))
	if fits := int((wide - 6) / charWidth); fits >= 3 {
		i.printf(`<text x="%.2f" y="%d">%s</text>`, x+3, y+13, text(cut(n.name, fits)))
	}
	i.printf("</g>\n")
	children := make([]*node, 0, len(n.children))
	for _, c := range n.children {
		children = append(children, c)
	}
	slices.SortFunc(children, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	for _, c := range children {
		of := i.share(c.value, width-2*margin)
		if of >= thinnest {
			i.draw(c, x, of, row+1)
		}
		x += of
	}
}

// colour returns a warm colour that is the same for each name.
func colour(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	n := h.Sum32()
	return fmt.Sprintf("#%02x%02x%02x", 205+n%50, 90+(n>>8)%120, (n>>16)%60)
}

// cut returns at most so many characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// text returns what a stranger wrote as text of an image: nothing in it is markup, and all of it is
// visible.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, cut(strings.ToValidUTF8(s, "?"), longest))
	return html.EscapeString(s)
}
