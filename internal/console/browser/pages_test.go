package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/client/agentclient"
	"github.com/scriptorium-dev/scriptorium/client/registryclient"
	"github.com/scriptorium-dev/scriptorium/internal/console/browser"
	"github.com/scriptorium-dev/scriptorium/internal/local/localtest"
	"github.com/scriptorium-dev/scriptorium/script"
)

// page is a page that every test of all pages looks at.
type page struct {
	name, path string
	shows      string // once it is complete
}

var pages = []page{
	{"scripts", "/", "acme/route"},
	{"new", "/script/new/", "Begin with"},
	{"script", "/script/?name=acme%2Froute", "The registry finds no problem."},
	{"history", "/script/history/?name=acme%2Froute", `+   return { upstream = "web" }`},
	{"rollout", "/script/rollout/?name=acme%2Froute", "Nothing is rolled out now"},
	{"fleet", "/fleet/", "agent-2"},
	{"agent", "/fleet/agent/?name=agent-1", "agent-1"},
	{"events", "/fleet/events/", "Events"},
	{"logs", "/logs/?tenant=acme", "answered"},
	{"values", "/values/?tenant=acme", "flags/checkout"},
	{"value", "/values/?tenant=acme&key=flags%2Fcheckout", "the summer sale"},
	{"tenants", "/tenants/", "acme"},
	{"tenant", "/tenants/?tenant=acme", "Isolation"},
	{"access", "/access/", "anonymous"},
	{"audit", "/audit/", "acme/route"},
}

// goTo opens the page, and waits until it is complete.
func (w *world) goTo(p *browser.Page, one page) {
	p.Go(w.url + one.path)
	p.See("anonymous") // who is signed in
	p.See(one.shows)
	p.Wait("all that it loads", "!document.querySelector('.skeleton') && !/Connecting|Loading/.test(document.body.innerText)")
}

// TestAccessible: axe finds no violation of WCAG 2.2 AA on any page, in light and in dark.
func TestAccessible(t *testing.T) {
	w := start(t, 2)
	w.furnish(t)
	axe, err := os.ReadFile(filepath.FromSlash("../../../console/node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatalf("run `make console`, which installs axe-core: %v", err)
	}
	p := w.open(t, "/")
	p.Size(1280, 860)
	if *pictures != "" {
		w.keepCalling(t)
	}
	for _, one := range pages {
		p.Scheme("light")
		w.goTo(p, one)
		if *pictures != "" {
			if one.name == "scripts" {
				p.See("µs") // live figures
			}
			shoot(t, p, one.name)
		}
		p.Eval(string(axe)+"; 1", new(int))
		violations(t, p, one, "type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']")
		p.Scheme("dark")
		p.Wait("the end of all transitions", "document.getAnimations().length === 0")
		violations(t, p, one, "type: 'rule', values: ['color-contrast', 'link-in-text-block']") // nothing else differs
	}
}

// violations fails the test for each violation of the rules.
func violations(t *testing.T, p *browser.Page, one page, rules string) {
	t.Helper()
	var found []struct {
		ID, Help string
		Where    []string
	}
	p.Eval(`axe.run({ runOnly: { `+rules+` } }).then((r) => r.violations.map((v) => ({ id: v.id, help: v.help, where: v.nodes.map((n) => n.html + ' ' + n.failureSummary) })))`, &found)
	for _, v := range found {
		t.Errorf("%s, %s: %s (%s)\n\t%s", one.path, rules, v.ID, v.Help, strings.Join(v.Where, "\n\t"))
	}
}

// TestNarrow: no page scrolls sideways in 360 pixels, and none moves what a person reads while it loads.
func TestNarrow(t *testing.T) {
	w := start(t, 2)
	w.furnish(t)
	p := w.open(t, "/")
	p.Size(360, 740)
	for _, one := range pages {
		w.goTo(p, one)
		var sideways int
		p.Eval("document.documentElement.scrollWidth - document.documentElement.clientWidth", &sideways)
		if sideways > 0 {
			t.Errorf("%s is %d pixels wider than 360", one.path, sideways)
		}
	}
	p.Size(1280, 800)
	for _, one := range pages {
		w.goTo(p, one)
		var shift float64
		p.Eval(`new Promise((done) => new PerformanceObserver((l) => done(l.getEntries().reduce((sum, e) => sum + e.value, 0))).observe({ type: 'layout-shift', buffered: true }) || setTimeout(() => done(0), 300))`, &shift)
		if shift > maxShift {
			t.Errorf("%s: the layout shifts by %.3f while it loads", one.path, shift)
		}
	}
}

// maxShift is half of what counts as good.
const maxShift = 0.05

const furniture = `-- Which service answers this request?
function handle(request)
  if not request.path then
    error("the request has no path")
  end
  log.info("answered", { path = request.path })
  return { upstream = "web" }
end`

// furnish publishes what makes the pages look as they do in use.
func (w *world) furnish(t *testing.T) {
	t.Helper()
	w.Publish(t, localtest.Manifest("route", strings.ReplaceAll(furniture, "web", "shop")), 2) // its first version
	for _, name := range []string{"route", "greet", "ab-split"} {
		w.Publish(t, localtest.Manifest(name, furniture), 2)
	}
	for _, name := range []string{"route", "greet"} {
		w.call(t, name, 40)
	}
	ctx, by := t.Context(), registryclient.DataWrite{Author: "ann", Note: "the summer sale"}
	if _, _, err := w.Registry.PutValue(ctx, script.ValueKey{Tenant: "acme", Key: "flags/checkout"}, []byte(`{"new-checkout": true}`), by); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Registry.SetTenant(ctx, "acme", &script.TenantSettings{MemoryBytes: 256 << 20}, by); err != nil {
		t.Fatal(err)
	}
}

// keepCalling has calls until the test ends, so that the pictures show some.
func (w *world) keepCalling(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			w.call(t, "route", 8)
			w.call(t, "greet", 8)
		}
	}()
}

// call has an agent run a script so often. One call of eight fails.
func (w *world) call(t *testing.T, name string, calls int) {
	t.Helper()
	client, err := agentclient.New("unix:" + filepath.Join(w.Stack.AgentDir(1), "grpc.sock"))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for i := range calls {
		request := map[string]any{"path": "/api/cart"}
		if i%8 == 7 {
			delete(request, "path")
		}
		if _, err := client.Call(t.Context(), "acme/"+name, request); (err != nil) != (i%8 == 7) && t.Context().Err() == nil {
			t.Error(err)
		}
	}
}
