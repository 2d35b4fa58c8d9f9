package browser_test

import (
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
)

// TestSignIn: a person with the code gets to the page that they wanted, and back to signing in at the end.
func TestSignIn(t *testing.T) {
	w := start(t, 1)
	w.Publish(t, localtest.Manifest("greet", `function handle() return "hello" end`), 1)
	p := browser.Start(t).Open(t)
	p.Go(w.url + "/?q=greet")
	p.See("The code that the console printed")
	p.Forgive()
	p.Fill("The code that the console printed", "AAAA-AAAA")
	p.Click("button", "Sign in")
	p.Wait("why not", "document.querySelector('[role=alert]').innerText.length > 10")
	p.Forgive() // the refusal
	p.Fill("The code that the console printed", <-w.code)
	p.Click("button", "Sign in")
	p.Wait("the list", "location.pathname + location.search === '/?q=greet'")
	p.See("acme/greet")
	p.Click("button", "anonymous")
	p.Click("button", "Sign out")
	p.See("The code that the console printed")
	p.Go(w.url + "/")
	p.Wait("the page for signing in", "location.pathname === '/signin/'")
	p.Forgive()
}
