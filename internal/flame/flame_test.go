package flame_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/flame"
)

// drawn returns the graph as text, its texts, and the names of its elements.
func drawn(t *testing.T, g *flame.Graph) (svg string, texts []string, elements map[string]int) {
	t.Helper()
	var out bytes.Buffer
	if err := g.SVG(&out); err != nil {
		t.Fatal(err)
	}
	elements = map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	d.Strict = true
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String(), texts, elements
		}
		if err != nil {
			t.Fatalf("it is no XML: %v\n%s", err, out.String())
		}
		switch e := token.(type) {
		case xml.StartElement:
			elements[e.Name.Local]++
			for _, a := range e.Attr {
				if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("an attribute that does something: %s", a.Name.Local)
				}
			}
		case xml.CharData:
			texts = append(texts, string(e))
		}
	}
}

func TestGraph(t *testing.T) {
	svg, texts, elements := drawn(t, &flame.Graph{Title: "acme/route@9", Root: "all", Unit: "instructions", Stacks: []flame.Stack{
		{Frames: []string{"handle:9", "sum:4"}, Value: 800},
		{Frames: []string{"handle:9", "sum:3"}, Value: 100},
		{Frames: []string{"handle:10"}, Value: 100},
	}})
	all := strings.Join(texts, "\n")
	for _, want := range []string{"acme/route@9", "all: 1000 instructions, 100.00 %", "handle:9: 900 instructions, 90.00 %", "sum:4: 800 instructions, 80.00 %", "handle:10: 100 instructions, 10.00 %"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	if elements["g"] != 5 || elements["rect"] != 6 {
		t.Errorf("%v, want 5 boxes", elements)
	}
	if !strings.Contains(svg, `width="944.00"`) { // 80 % of 1180
		t.Errorf("no box has 80 %% of the width:\n%s", svg)
	}
	if again, _, _ := drawn(t, &flame.Graph{Title: "acme/route@9"}); !strings.Contains(again, "</svg>") {
		t.Errorf("without stacks: %s", again)
	}
}

// TestHostileNames: whatever a name is, the image is XML, has no element but its own, and shows no
// character that is not visible.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{
		`</title><script>alert(1)</script>`, `<svg onload="x">`, `"/><image href="http://x"/>`, `' onclick='x`, `]]>`, `&lt;&#0;&nosuch;`, `<!--`, `<?xml?>`, `%s%d%!`,
		"\x00\x01\x1b[2J\r\n\t", "\xff\xfe", "\u202egnp.exe", "\ufeff\ufffe\uffff", "", strings.Repeat("<", 1<<20), strings.Repeat("ü\u0301", 1000),
	} {
		svg, texts, elements := drawn(t, &flame.Graph{Title: name, Root: name, Unit: name, Stacks: []flame.Stack{{Frames: []string{name, name}, Value: 7}}})
		for _, r := range strings.Join(texts, "") {
			if r != '\n' && (r < ' ' || r == 0x7f || r == '\u202e' || r == '\ufeff') {
				t.Errorf("%.20q: the image has %U", name, r)
			}
		}
		for element := range elements {
			if !strings.Contains(" svg style rect text g title ", " "+element+" ") {
				t.Errorf("%.20q: the image has an element %s", name, element)
			}
		}
		if elements["style"] != 1 || elements["g"] != 3 || len(svg) > 20<<10 {
			t.Errorf("%.20q: %v in %d bytes", name, elements, len(svg))
		}
	}
}

// TestManyStacks: an image has no more boxes than its width has room for, and no more rows than a
// browser draws.
func TestManyStacks(t *testing.T) {
	g := &flame.Graph{Root: "all"}
	for i := range 2_000 {
		s := flame.Stack{Value: 1}
		for depth := range 150 {
			s.Frames = append(s.Frames, fmt.Sprint(depth, i%(1+depth*100)))
		}
		g.Stacks = append(g.Stacks, s)
	}
	svg, _, elements := drawn(t, g)
	if elements["g"] > 128*1180/2 || len(svg) > 16<<20 {
		t.Errorf("%d boxes in %d bytes", elements["g"], len(svg))
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBrokenWriter(t *testing.T) {
	if err := (&flame.Graph{Root: "all", Stacks: []flame.Stack{{Value: 1}}}).SVG(broken{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
