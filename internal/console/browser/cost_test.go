package browser_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	eventv1 "github.com/scriptorium-dev/scriptorium/proto/event/v1"
)

// few and many are how many scripts and agents a small and a large registry have.
const few = 100

var (
	many    = flag.Int("browser.many", 1000, "how many `scripts and agents` a large registry has")
	measure = flag.Bool("browser.measure", false, "fail if an interaction takes longer than 100 ms: for a quiet machine")
)

// TestFirstLoad checks how much a browser fetches that has nothing in its cache.
func TestFirstLoad(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/")
	p.Uncached()
	for _, one := range []struct {
		path, shows string
		most        int
	}{
		{"/", "acme/route", 150 << 10},
		{"/script/?name=acme%2Froute", "The registry finds no problem.", 400 << 10},
	} {
		p.Go("about:blank")
		p.Weight("")
		p.Go(w.url + one.path)
		p.See(one.shows)
		got := p.Weight("")
		t.Logf("%s: %d KiB", one.path, got>>10)
		if got > one.most {
			t.Errorf("%s: the browser fetches %d bytes at the first load, more than %d", one.path, got, one.most)
		}
	}
}

// step is what a person does in a list, until they see its effect.
type step struct{ name, does, until string }

func search(text string) string {
	return fmt.Sprintf(`const f = find('field', 'Search'); f.value = '%s'; f.dispatchEvent(new Event('input', { bubbles: true }))`, text)
}

// firstRow says that the first row of the list in the page is of the name.
func firstRow(name string) string {
	return fmt.Sprintf(`document.querySelector('.viewport tbody a')?.textContent === '%s'`, name)
}

func lastRow(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.viewport tbody a')].some((a) => a.textContent === '%s')`, name)
}

const toEnd = `const v = document.querySelector('.viewport'); v.scrollTop = v.scrollHeight`

// TestManyScripts checks that the list of a large registry costs the page what a small one costs.
func TestManyScripts(t *testing.T) {
	w := start(t, 0)
	p := w.open(t, "/")
	small := 0
	for _, n := range []int{few, *many} {
		w.publishMany(t, n)
		p.Go(w.url + "/")
		p.See("acme/s-00000")
		last := fmt.Sprintf("acme/s-%05d", n-1)
		elements := interact(t, p, n, []step{
			{"scroll to the end", toEnd, lastRow(last)},
			{"sort by name backwards", `find('link', 'Script').click()`, firstRow(last)},
			{"search", search("s-00042"), firstRow("acme/s-00042")},
			{"remove the search", search(""), firstRow(last)},
		})
		if small == 0 {
			small = elements
		} else if elements > 2*small {
			t.Errorf("the page has %d elements with %d scripts, and %d with %d", elements, n, small, few)
		}
	}
}

// TestManyAgents checks the same of the fleet.
func TestManyAgents(t *testing.T) {
	w := start(t, 0)
	p := w.open(t, "/")
	small := 0
	for _, n := range []int{few, *many} {
		w.report(t, n, func(int, *eventv1.Status) {})
		p.Go(w.url + "/fleet/")
		p.See("crowd-00000")
		last := fmt.Sprintf("crowd-%05d", n-1)
		elements := interact(t, p, n, []step{
			{"scroll to the end", toEnd, lastRow(last)},
			{"sort by name backwards", `find('link', 'Agent').click()`, firstRow(last)},
			{"search", search("crowd-00042"), firstRow("crowd-00042")},
			{"remove the search", search(""), firstRow(last)},
		})
		if small == 0 {
			small = elements
		} else if elements > 2*small {
			t.Errorf("the page has %d elements with %d agents, and %d with %d", elements, n, small, few)
		}
	}
}

// interact does the steps, and returns how many elements the page had at most.
func interact(t *testing.T, p *browser.Page, n int, steps []step) int {
	t.Helper()
	most := 0
	for _, s := range steps {
		took := p.Time(s.name, s.does, s.until)
		t.Logf("%d: %s: %s", n, s.name, took.Round(time.Millisecond))
		if *measure && took > 100*time.Millisecond {
			t.Errorf("with %d in the list it takes %s to %s, longer than 100 ms", n, took, s.name)
		}
		var elements int
		p.Eval("document.querySelectorAll('*').length", &elements)
		most = max(most, elements)
	}
	return most
}
