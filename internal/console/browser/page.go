// Package browser drives pages in a real browser, for tests of the console. Elements are found as people find them: by their
// role and name.
package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/scriptorium-dev/scriptorium/internal/needs"
)

// patience bounds every wait; nothing is measured by it.
const patience = 60 * time.Second

// finder is the function find(role, name) for pages.
//
//go:embed find.js
var finder string

// Browser is a Chromium with a profile of its own.
type Browser struct {
	ctx context.Context //nolint:containedctx // chromedp keeps the browser there
}

// Start starts a browser for the test, which is skipped on a machine without one.
func Start(tb testing.TB) *Browser {
	tb.Helper()
	needs.Command(tb, "chromium", "chromium")
	path, err := exec.LookPath("chromium")
	if err != nil {
		tb.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 800), chromedp.WSURLReadTimeout(patience))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator, chromedp.WithLogf(tb.Logf), chromedp.WithErrorf(func(string, ...any) {}))
	tb.Cleanup(func() {
		end()
		endAllocator()
	})
	if err := chromedp.Do(ctx); err != nil {
		tb.Fatalf("start %s: %v", path, err)
	}
	return &Browser{ctx: ctx}
}

// Page is one tab. All tabs of a browser have the same cookies.
type Page struct {
	tb  testing.TB
	ctx context.Context //nolint:containedctx // chromedp keeps the tab there

	mu      sync.Mutex
	errors  []string
	loaded  map[network.RequestID]string
	weights map[string]float64 // bytes on the wire, by URL
}

// Open opens a tab. The test fails if the page logs an error that the test does not Forgive.
func (b *Browser) Open(tb testing.TB) *Page {
	tb.Helper()
	p := &Page{tb: tb, loaded: map[network.RequestID]string{}, weights: map[string]float64{}}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithListener(p.listen))
	p.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // what has a timeout cannot open the tab
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the page at the end:\n%s", p.Text("body"))
		}
		for _, e := range p.Forgive() {
			tb.Errorf("the page logged an error: %s", e)
		}
		end()
	})
	p.do(call(network.Enable, network.EnableParams{}), call(cdplog.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}),
		// So has each tab the focus, whichever is in front.
		call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	return p
}

func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" { // as the framework reports what fails while it renders
			p.errors = append(p.errors, textOf(e.Args))
		}
	case *cdplog.EventEntryAdded:
		// A request that fails is an answer like another: pages show it.
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			p.errors = append(p.errors, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventResponseReceived:
		p.loaded[e.RequestID] = e.Response.URL
	case *network.EventLoadingFinished:
		p.weights[p.loaded[e.RequestID]] += e.EncodedDataLength
	}
}

// textOf is what the console of a browser shows of the arguments.
func textOf(args []*runtime.RemoteObject) string {
	var all []string
	for _, a := range args {
		if a.Description != "" {
			all = append(all, a.Description)
		} else {
			all = append(all, string(a.Value))
		}
	}
	return strings.Join(all, " ")
}

// Forgive returns the errors so far, and forgets them.
func (p *Page) Forgive() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := p.errors
	p.errors = nil
	return errs
}

// Weight returns the bytes that came over the wire so far from URLs with the part, and forgets them.
func (p *Page) Weight(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0.0
	for url, bytes := range p.weights {
		if strings.Contains(url, part) {
			sum += bytes
			delete(p.weights, url)
		}
	}
	return int(sum)
}

// Uncached has the browser fetch everything anew for this page.
func (p *Page) Uncached() {
	p.tb.Helper()
	p.do(call(network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}))
}

// Time does something, and returns how long it took from the first event of that until the page painted what the condition
// waits for.
func (p *Page) Time(do func(), until string) time.Duration {
	p.tb.Helper()
	p.Eval(fmt.Sprintf(`took = undefined; {
		const events = ['mousedown', 'keydown', 'input', 'scroll'];
		const begin = () => {
			events.forEach((e) => document.removeEventListener(e, begin, true));
			const began = performance.now();
			const check = () => requestAnimationFrame(() => (%s) ? took = performance.now() - began : check());
			check();
		};
		events.forEach((e) => document.addEventListener(e, begin, true));
	} 1`, until), new(int))
	do()
	p.Wait(until, "took !== undefined")
	var millis float64
	p.Eval("took", &millis)
	return time.Duration(millis * float64(time.Millisecond))
}

// Go loads a page.
func (p *Page) Go(url string) {
	p.tb.Helper()
	p.do(chromedp.Navigate(url))
}

// See waits until the page shows the text.
func (p *Page) See(text string) {
	p.tb.Helper()
	p.Wait("the text "+text, "document.body.innerText.includes("+quote(text)+")")
}

// Miss waits until the page does not show the text.
func (p *Page) Miss(text string) {
	p.tb.Helper()
	p.Wait("that the text is gone: "+text, "!document.body.innerText.includes("+quote(text)+")")
}

// Text returns the text of the first element that the selector selects.
func (p *Page) Text(selector string) string {
	var text string
	if err := p.eval("document.querySelector("+quote(selector)+")?.innerText ?? ''", &text); err != nil {
		return err.Error()
	}
	return text
}

// Click clicks the element with the role and the name, with the mouse, once it can be clicked.
func (p *Page) Click(role, name string) {
	p.tb.Helper()
	var at []float64
	p.await(fmt.Sprintf("a %s %q to click on", role, name), fmt.Sprintf("%s; place(find(%s, %s))", finder, quote(role), quote(name)), func(raw json.RawMessage) bool {
		return json.Unmarshal(raw, &at) == nil && len(at) == 2
	})
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// Fill replaces what is in the field with the name.
func (p *Page) Fill(name, text string) {
	p.tb.Helper()
	p.Wait("a field "+name, fmt.Sprintf("%s; focus(find('field', %s))", finder, quote(name)))
	p.do(call(input.InsertText, input.InsertTextParams{Text: text}))
	if text == "" {
		p.Press(kb.Backspace)
	}
	p.Wait(fmt.Sprintf("the field %s with %q", name, text), fmt.Sprintf("%s; find('field', %s)?.value === %s", finder, quote(name), quote(text)))
}

// Replace replaces all text of the editor with the name.
func (p *Page) Replace(name, text string) {
	p.tb.Helper()
	p.Wait("an editor "+name, fmt.Sprintf("%s; focus(find('field', %s))", finder, quote(name)))
	p.Press("a", chromedp.ModifierCtrl)
	p.Press(kb.Backspace) // else the browser keeps the style of what it replaces, by an attribute that the policy forbids
	p.do(call(input.InsertText, input.InsertTextParams{Text: text}))
}

// Choose selects the option with the text in the field with the name.
func (p *Page) Choose(name, option string) {
	p.tb.Helper()
	p.Wait(fmt.Sprintf("the option %s of %s", option, name), fmt.Sprintf("%s; choose(find('field', %s), %s)", finder, quote(name), quote(option)))
}

// Press types keys where the focus is.
func (p *Page) Press(keys string, modifiers ...chromedp.Modifier) {
	p.tb.Helper()
	p.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// Type inserts text where the focus is.
func (p *Page) Type(text string) {
	p.tb.Helper()
	p.do(call(input.InsertText, input.InsertTextParams{Text: text}))
}

// Scheme has the page in "light" or "dark".
func (p *Page) Scheme(scheme string) {
	p.tb.Helper()
	p.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// Size has the page as large as the window of a device.
func (p *Page) Size(width, height int64) {
	p.tb.Helper()
	p.do(call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}))
}

// Wait waits until the expression is true. What it waits for is for people.
func (p *Page) Wait(what, expression string) {
	p.tb.Helper()
	p.await(what, expression, func(raw json.RawMessage) bool { return string(raw) == "true" })
}

// Eval returns what the expression is, or what its promise resolves to.
func (p *Page) Eval(expression string, to any) {
	p.tb.Helper()
	if err := p.eval(expression, to); err != nil {
		p.tb.Fatal(err)
	}
}

// Picture returns the visible part of the page as a PNG.
func (p *Page) Picture() []byte {
	p.tb.Helper()
	shot, err := run(p, func(ctx context.Context, t *chromedp.Target) (page.CaptureScreenshotResult, error) {
		return cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	})
	if err != nil {
		p.tb.Fatal(err)
	}
	return shot.Data
}

// await evaluates the expression until good accepts what it is.
func (p *Page) await(what, expression string, good func(json.RawMessage) bool) {
	p.tb.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var err error
	for {
		var raw json.RawMessage
		// A page that is being left has no answer.
		if err = p.eval(expression, &raw); err == nil && good(raw) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline.C:
			p.tb.Fatalf("the page does not have %s (%v); it has:\n%s", what, err, p.Text("body"))
		}
	}
}

func (p *Page) eval(expression string, to any) error {
	raw, err := run(p, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err != nil || len(raw) == 0 {
		return err
	}
	return json.Unmarshal(raw, to)
}

func (p *Page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.tb.Helper()
	if _, err := run(p, chromedp.Steps(actions...)); err != nil {
		p.tb.Fatal(errors.Join(err, p.ctx.Err()))
	}
}

func run[T any](p *Page, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// call is a command without an answer.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // never: it is a string
	}
	return string(b)
}
