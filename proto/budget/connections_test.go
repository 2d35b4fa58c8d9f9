package budget_test

import (
	"fmt"
	"testing"

	"github.com/scriptorium-dev/scriptorium/proto/budget"
)

// enter takes as many places as it gets.
func enter(c *budget.Connections, caller string, bytes int64) (n int) {
	for c.Enter(caller, bytes) {
		n++
	}
	return n
}

// TestConnections: whoever takes all that it gets leaves room for the next, in number and in
// bytes.
func TestConnections(t *testing.T) {
	for name, few := range map[string]int{"number": 900 / 64, "bytes": 16} {
		c := budget.NewConnections(900, 1e9)
		if name == "bytes" {
			c = budget.NewConnections(1e9, 9000)
		}
		for _, tt := range []struct {
			caller string
			want   int
		}{{"a", 600}, {"b", 188}, {budget.Stranger, few}} {
			if got := enter(c, tt.caller, 10); got < tt.want-2 || got > tt.want {
				t.Errorf("%s: %q has %d connections, want about %d", name, tt.caller, got, tt.want)
			}
		}
		if got := enter(c, "a", 10); got != 0 {
			t.Errorf("%s: a has %d more", name, got)
		}
		if !c.Enter("c", 10) {
			t.Errorf("%s: there is no place for another caller", name)
		}
		for range 600 {
			c.Leave("a", 10)
		}
		if got := enter(c, "b", 10); got < 150 {
			t.Errorf("%s: b has only %d of the places that a gave back", name, got)
		}
	}
}

// TestCallersTogether: many callers that take all they get leave room for one that needs few.
func TestCallersTogether(t *testing.T) {
	for name, c := range map[string]*budget.Connections{"number": budget.NewConnections(20_000, 1e12), "bytes": budget.NewConnections(20_000, 20_000*10)} {
		for i := range 100 {
			enter(c, fmt.Sprint("uid ", i), 10)
		}
		if got := enter(c, "another", 10); got < 15 {
			t.Errorf("%s: after a hundred callers, another gets %d connections", name, got)
		}
		if got := enter(c, "uid 0", 10); got != 0 {
			t.Errorf("%s: who has many gets %d more", name, got)
		}
	}
}

func TestFewConnections(t *testing.T) {
	for most := 1; most <= 2; most++ {
		if got := enter(budget.NewConnections(most, 100), "a", 1); got != most {
			t.Errorf("a caller alone has %d of %d", got, most)
		}
	}
	c := budget.NewConnections(1000, 1e9)
	if got := enter(c, budget.Stranger, 1); got != 125 {
		t.Errorf("strangers have %d", got)
	}
	if c.Open() != 125 || c.Most() != 1000 || c.Refused.Load() != 1 {
		t.Errorf("%d of %d are open, %d were refused", c.Open(), c.Most(), c.Refused.Load())
	}
}
