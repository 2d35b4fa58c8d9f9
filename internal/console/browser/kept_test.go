package browser_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	"github.com/scriptorium-dev/scriptorium/script"
)

// goByName goes to a script with the keyboard, as fast as a person who knows its name.
func goByName(p *browser.Page, name string) {
	p.Press("k", chromedp.ModifierCtrl)
	p.Wait("the palette", "document.activeElement?.className === 'palette-query'")
	p.Type(name)
	p.Press("\r")
	p.See(name)
	p.Wait("the page of "+name, "new URLSearchParams(location.search).get('name') === '"+name+"'")
}

// TestDraftsOfTwoScripts checks that a draft outlives a visit to another script, whose page is the same.
func TestDraftsOfTwoScripts(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	w.publish(t, "gate", router)
	p := w.open(t, "/")
	p.Click("link", "acme/route")
	p.See("The registry finds no problem.")
	p.Replace("Source of acme/route", "-- mine\n"+router)
	p.See("Version 1 with changes")
	goByName(p, "acme/gate")
	p.See("Version 1.")
	p.See("The registry finds no problem.")
	goByName(p, "acme/route")
	p.See("Version 1 with changes")
	p.Press("s", chromedp.ModifierCtrl)
	p.Wait("the draft in the dialog", "document.querySelector('dialog[open]')?.innerText.includes('+ -- mine')")
}

// TestNewDraftIsKept checks that a new script with the name of a kept draft goes on with that draft.
func TestNewDraftIsKept(t *testing.T) {
	w := start(t, 1)
	p := w.open(t, "/")
	begin := func() {
		p.Click("link", "Scripts")
		p.Click("link", "New script")
		p.See("Begin with") // the list has a field Tenant, too
		p.Fill("Tenant", "acme")
		p.Fill("Name", "route")
		p.Click("button", "Write it")
		p.See("A new script. It is not published yet.")
	}
	begin()
	p.Replace("Source of acme/route", "-- mine\n"+router)
	p.See("The registry finds no problem.")
	begin()
	publishDraft(p, "The first version")
	w.live(t, "route", 1)
	if got := w.source(t, "route"); got != "-- mine\n"+router {
		t.Errorf("version 1 is\n%s", got)
	}
}

// TestDropAfterAnotherPublish checks that a draft without changes is the newest version again, and reverts nobody's publish.
func TestDropAfterAnotherPublish(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme/route")
	p.Replace("Source of acme/route", "-- mine\n"+router)
	p.See("Version 1 with changes")
	w.publish(t, "route", "-- theirs\n"+router)
	p.See("acme/route changed: version 2")
	p.Click("button", "Drop changes")
	p.See("Version 2.")
	p.Miss("Your draft began before")
}

// TestActionsBelowAChange checks that an action does what its dialog said when the person opened it.
func TestActionsBelowAChange(t *testing.T) {
	w := start(t, 1)
	for _, version := range []string{"one", "two"} {
		w.publish(t, "route", "-- "+version+"\n"+router)
	}
	p := w.open(t, "/script/?name=acme/route")
	p.See("version 2")
	p.Click("button", "Actions")
	p.Click("button", "Roll back…")
	p.See("live before version 2")
	w.publish(t, "route", "-- three\n"+router)
	p.See("live before version 3")
	p.Fill("Reason", "two is bad")
	p.Click("button", "Roll back")
	p.See("The script has other versions by now.")
	p.Click("button", "Cancel")
	p.Miss("The script has other versions by now.")
	if got := w.source(t, "route"); got != "-- three\n"+router+"\n" {
		t.Errorf("the active version is\n%s", got)
	}

	p.Click("button", "Actions")
	p.Click("button", "Hold at version 3…")
	p.See("Version 3 keeps running")
	w.publish(t, "route", "-- four\n"+router)
	p.See("Version 3 runs again in place of version 4")
	p.Fill("Reason", "incident 12")
	p.Click("button", "Hold")
	p.See("held")
	w.live(t, "route", 3)
}

// TestRollbackOfAStalePage checks the same of a page that does not know the newest version.
func TestRollbackOfAStalePage(t *testing.T) {
	w := start(t, 1)
	for _, version := range []string{"one", "two"} {
		w.publish(t, "route", "-- "+version+"\n"+router)
	}
	p := w.open(t, "/script/?name=acme/route")
	p.See("Live")
	p.Click("button", "Actions")
	p.Click("button", "Roll back…")
	p.See("live before version 2")
	hide(p)
	w.publish(t, "route", "-- three\n"+router)
	p.Fill("Reason", "two is bad")
	p.Click("button", "Roll back")
	p.See("The script has other versions by now.")
	if got := w.source(t, "route"); got != "-- three\n"+router+"\n" {
		t.Errorf("the active version is\n%s", got)
	}
}

// TestDeletedMeanwhile publishes a script again that somebody deleted below the editor, and goes on with it.
func TestDeletedMeanwhile(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme/route")
	p.See("The registry finds no problem.")
	p.Replace("Source of acme/route", "-- mine\n"+router)
	p.See("Version 1 with changes")
	if _, err := w.Registry.Delete(t.Context(), script.Name{Tenant: "acme", Script: "route"}, registryclient.Write{Author: "bo", Note: "gone"}); err != nil {
		t.Fatal(err)
	}
	p.See("was deleted")
	p.Click("button", "Publish…")
	p.See("The script was deleted after you began")
	p.Click("button", "Continue")
	p.See("A new script. It is not published yet.")
	publishDraft(p, "It is needed")
	p.See("Version 2 is published.")
	p.Miss("was deleted")
	p.Replace("Source of acme/route", "-- mine again\n"+router)
	p.See("Version 2 with changes")
	publishDraft(p, "More")
	p.See("Version 3 is published.")
}

// TestMergeWithoutRegistry checks that the choices in a conflict are still there after an error.
func TestMergeWithoutRegistry(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme/route")
	p.See("The registry finds no problem.")
	p.Replace("Source of acme/route", "-- mine\n"+router+"\n")
	p.See("Version 1 with changes")
	w.publish(t, "route", router+"\n-- theirs")
	p.See("acme/route changed: version 2")
	p.Click("button", "Publish…")
	p.See("both are taken")
	if err := w.Stack.StopRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.See("Stale since")
	p.Click("button", "Continue")
	p.Wait("why it cannot continue", "document.querySelector('dialog[open] .error')?.innerText.length > 10")
	if err := w.Stack.StartRegistry(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.See("Live")
	p.Click("button", "Continue")
	p.See("Version 2 with changes")
	publishDraft(p, "Both")
	p.See("Version 3 is published.")
}

// TestLateConflict checks that an answer about an older draft does not come between a person and the present one.
func TestLateConflict(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	p := w.open(t, "/script/?name=acme/route")
	p.See("The registry finds no problem.")
	p.Replace("Source of acme/route", "-- old\n"+router)
	p.See("Version 1 with changes")
	p.Click("button", "Publish…")
	p.See("✓ The registry accepts it.")
	w.publish(t, "route", "-- theirs\n"+router)
	intercept(p, `String(url).endsWith('/History') && !window.held`, "window.held = true; await answers; window.late = true")
	p.Click("button", "Publish")
	p.Wait("the answer that is held", "window.held")
	p.Click("button", "Cancel")
	p.Click("button", "Drop my changes")
	p.See("Version 2.")
	p.Replace("Source of acme/route", "-- newest\n"+router)
	p.See("Version 2 with changes")
	p.Click("button", "Publish…")
	p.See("✓ The registry accepts it.")
	p.Eval("allow(), 1", new(int))
	p.Wait("the late answer", "window.late")
	p.Fill("What changes, and why?", "Go on")
	p.Click("button", "Publish")
	p.See("Version 3 is published.")
	if got := w.source(t, "route"); got != "-- newest\n"+router {
		t.Errorf("version 3 is\n%s", got)
	}
}

// TestValueHistory checks that a comparison ends when the value changes.
func TestValueHistory(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", router)
	key := script.ValueKey{Tenant: "acme", Key: "flags/sale"}
	for _, content := range []string{"1", "2"} {
		if _, _, err := w.Registry.PutValue(t.Context(), key, []byte(content), registryclient.DataWrite{Author: "bo", Note: "n"}); err != nil {
			t.Fatal(err)
		}
	}
	p := w.open(t, "/values/?tenant=acme&key=flags%2Fsale")
	p.Click("button", "Compare")
	p.See("From version 1 to now")
	p.Click("button", "Roll back")
	p.Fill("Reason", "one was right")
	p.Click("button", "Roll back")
	p.See("has the content of version 1 again")
	p.Miss("From version 1 to now")
}

// TestLogsWhilePaused checks that another filter shows its lines, although the lines before were paused.
func TestLogsWhilePaused(t *testing.T) {
	w := start(t, 1)
	w.publish(t, "route", `function handle() log.info("a usual line") log.warn("a warning") end`)
	w.call(t, "route", 7)
	p := w.open(t, "/logs/?tenant=acme&level=warn")
	p.See("a warning")
	p.Click("button", "Pause")
	p.Choose("Level", "All")
	p.See("a usual line")
}
