package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
)

const price = `local money = require("acme/money")
function handle(n) return money.euros(n) end
`

// TestLibrary edits and publishes a script that requires a library.
func TestLibrary(t *testing.T) {
	w := start(t, 1)
	library := localtest.Manifest("money", "return {euros = function(n) return n .. ' EUR' end}")
	w.Publish(t, strings.Replace(library, "spec:\n", "spec:\n  library: true\n", 1), 1)
	w.publish(t, "price", price)
	p := w.open(t, "/script/?name=acme%2Fprice")
	p.See("Version 1.")
	p.See("The registry finds no problem.")
	p.Replace("Source of acme/price", strings.Replace(price, "euros(n)", "euros(2 * n)", 1))
	p.Click("button", "Publish…")
	p.Fill("What changes, and why?", "twice the price")
	p.Click("button", "Publish")
	w.live(t, "price", 2)
}

// TestPalette chooses the last of many entries with the keyboard, and sees which one it chooses.
func TestPalette(t *testing.T) {
	w := start(t, 1)
	w.publishMany(t, 20)
	p := w.open(t, "/")
	p.See("acme/s-00000")
	p.Press("k", chromedp.ModifierCtrl)
	p.Wait("all entries", "document.querySelectorAll('#palette-list [role=option]').length > 20")
	p.Press(kb.ArrowUp) // from the first to the last
	p.Wait("the chosen entry in view", `(() => {
		const list = document.querySelector('#palette-list'), entry = list.querySelector('[aria-selected=true]');
		const [all, one] = [list, entry].map((e) => e.getBoundingClientRect());
		return entry === list.lastElementChild && one.top >= all.top && one.bottom <= all.bottom;
	})()`)
}
