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
	measure = flag.Bool("browser.measure", false, "fail if an interaction with the long list takes longer than 100 ms: for a quiet machine")
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
		p.Weight("/scriptorium.") // answers of the registry: the slower the machine, the more polls
		got := p.Weight("")
		t.Logf("%s: %d KiB", one.path, got>>10)
		if got > one.most {
			t.Errorf("%s: the browser fetches %d bytes at the first load, more than %d", one.path, got, one.most)
		}
	}
}

// step is what a person does in a list, until they see its effect.
type step struct {
	name  string
	do    func(p *browser.Page)
	until string
}

// firstRow says that the first row of the list in the page is of the name.
func firstRow(name string) string {
	return fmt.Sprintf(`document.querySelector('.viewport tbody a')?.textContent === '%s'`, name)
}

func anyRow(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.viewport tbody a')].some((a) => a.textContent === '%s')`, name)
}

func scrollTo(y int) func(*browser.Page) {
	return func(p *browser.Page) {
		p.Eval(fmt.Sprintf(`document.querySelector('.viewport').scrollTop = %d`, y), new(int))
	}
}

// TestManyScripts checks that the list of a large registry costs the page what a small one costs.
func TestManyScripts(t *testing.T) {
	w := start(t, 0)
	p := w.open(t, "/")
	w.sizes(t, p, "/", "Script", "acme/s-%05d", func(n int) { w.publishMany(t, n) })
}

// TestManyAgents checks the same of the fleet.
func TestManyAgents(t *testing.T) {
	w := start(t, 0)
	p := w.open(t, "/")
	w.sizes(t, p, "/fleet/", "Agent", "crowd-%05d", func(n int) { w.report(t, n, func(int, *eventv1.Status) {}) })
}

// sizes does the same in a short list and in a long one. The first column has the title, and the names have the form.
func (w *world) sizes(t *testing.T, p *browser.Page, path, title, form string, fill func(n int)) {
	t.Helper()
	small := 0
	for _, n := range []int{few, *many} {
		fill(n)
		first, some, last := fmt.Sprintf(form, 0), fmt.Sprintf(form, 42), fmt.Sprintf(form, n-1)
		p.Go(w.url + path)
		p.Wait("the first row", firstRow(first))
		elements := interact(t, p, n, []step{
			{"scroll to the end", scrollTo(1e9), anyRow(last)},
			{"scroll to the begin", scrollTo(0), firstRow(first)},
			{"sort backwards", func(p *browser.Page) { p.Click("link", title) }, firstRow(last)},
			{"search", func(p *browser.Page) { p.Fill("Search", some) }, firstRow(some)},
			{"remove the search", func(p *browser.Page) { p.Fill("Search", "") }, firstRow(last)},
		})
		if small == 0 {
			small = elements
		} else if elements > 2*small {
			t.Errorf("the page has %d elements with %d rows, and %d with %d", elements, n, small, few)
		}
	}
}

// interact does the steps, and returns how many elements the page had at most.
func interact(t *testing.T, p *browser.Page, n int, steps []step) int {
	t.Helper()
	most := 0
	for _, s := range steps {
		took := p.Time(func() { s.do(p) }, s.until)
		t.Logf("%d: %s: %s", n, s.name, took.Round(time.Millisecond))
		if *measure && n == *many && took > 100*time.Millisecond { // the short list comes first, so the browser has compiled the page
			t.Errorf("with %d in the list it takes %s to %s, longer than 100 ms", n, took, s.name)
		}
		var elements int
		p.Eval("document.querySelectorAll('*').length", &elements)
		most = max(most, elements)
	}
	return most
}
