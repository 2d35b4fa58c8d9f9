package gateways_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// exchange is a client's request to a gateway, and what has to come of it.
type exchange struct {
	name    string
	method  string // "" means GET
	target  string
	headers []string // names and values
	body    string

	status   int
	answer   string // the body; "" means that it does not matter
	location string // of the answer, if it is not ""
	served   bool   // the application gets the request
}

// exchanges are what every gateway does with the script of the pages.
func exchanges() []exchange {
	return []exchange{
		{name: "allow", target: "/shop?a=b%20c", status: 200, answer: "GET /shop?a=b%20c for : ", served: true},
		{name: "a header set", target: "/shop", headers: []string{"Cookie", "user=ann"}, status: 200, answer: "GET /shop for ann: ", served: true},
		{name: "a quote in a header", target: "/shop", headers: []string{"X-Odd", `a"b\'`, "Cookie", "user=ann"}, status: 200, answer: "GET /shop for ann: ", served: true},
		{name: "a body passes", method: "POST", target: "/shop", body: "hello", status: 200, answer: "POST /shop for : hello", served: true},
		{name: "a copied header is not the client's", target: "/shop", headers: []string{"X-User", "ann"}, status: 200, answer: "GET /shop for : ", served: true},
		{name: "a header held back", target: "/shop", headers: []string{"Connection", "X-User", "Cookie", "user=ann"}, status: 200, answer: "GET /shop for ann: ", served: true},
		{name: "deny", target: "/admin", status: 403, answer: "not you\n"},
		{name: "allow there", target: "/admin", headers: []string{"Cookie", "user=ann"}, status: 200, served: true},
		{name: "deny with a query", target: "/admin?fail=open&accel=@app", status: 403},
		{name: "deny a path that is not clean", target: "/x/..//%61dmin", status: 403},
		{name: "redirect", target: "/account", status: 302, location: "/login?to=/account"},
		{name: "a forged URI", target: "/admin", headers: []string{"X-Forwarded-Uri", "/shop", "X-Forwarded-Method", "GET"}, status: 403},
		{name: "another forged URI", target: "/admin", headers: []string{"X-Original-URI", "/shop", "X-Original-URL", "http://shop/", "X-Original-Method", "GET"}, status: 403},
		{name: "a forged decision", target: "/admin", headers: []string{"Scriptorium-Version", "7", "Scriptorium-Path", "/shop", "X-Accel-Redirect", "@app", "Scriptorium-Timeout", "1ns"}, status: 403},
	}
}

// conform has a client make the exchanges. A gateway differs in some as adapt says.
func (w *world) conform(t *testing.T, address string, adapt func(*exchange)) {
	t.Helper()
	for _, x := range exchanges() {
		if adapt != nil {
			adapt(&x)
		}
		if err := w.exchange(t, address, x); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

func (w *world) exchange(t *testing.T, address string, x exchange) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), x.method, "http://"+address+x.target, strings.NewReader(x.body))
	if err != nil {
		return err
	}
	for i := 0; i < len(x.headers); i += 2 {
		req.Header.Add(x.headers[i], x.headers[i+1])
	}
	before := w.served.Load()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	served := w.served.Load() > before
	if resp.StatusCode != x.status || served != x.served || x.answer != "" && string(body) != x.answer || x.location != "" && !strings.HasSuffix(resp.Header.Get("Location"), x.location) {
		return fmt.Errorf("status %d, body %q, location %q, reason %q, served %v\nwant %d, %q, %q, %v", resp.StatusCode, body,
			resp.Header.Get("Location"), resp.Header.Get("Scriptorium-Reason"), served, x.status, x.answer, x.location, x.served)
	}
	return nil
}

// closed checks that the gateway serves nothing while there is no decision, unless the script says so. An
// agent in the gateway itself is never gone: its table does not say what happens then.
func (w *world) closed(t *testing.T, address string, cells map[string]string) {
	t.Helper()
	status := func(row string) int {
		n, err := strconv.Atoi(cells[row])
		if err != nil {
			t.Errorf("the table has no status for %s: %v", row, err)
		}
		return n
	}
	failing := strings.Replace(w.source, "function handle(request)", "function handle(request)\n      error(\"a fault\")", 1)
	w.publish(failing)
	if err := w.exchange(t, address, exchange{target: "/shop", status: status("the script fails")}); err != nil {
		t.Errorf("the script fails: %v", err)
	}
	w.publish(strings.Replace(failing, "spec:\n", "spec:\n  onError: {status: 403}\n", 1))
	if err := w.exchange(t, address, exchange{target: "/shop", status: 403}); err != nil {
		t.Errorf("the script fails, and says 403: %v", err)
	}
	w.publish(strings.Replace(failing, "spec:\n", "spec:\n  onError: {policy: open}\n", 1))
	if err := w.exchange(t, address, exchange{target: "/shop", status: 200, served: true}); err != nil {
		t.Errorf("the script fails open: %v", err)
	}
	w.publish(w.source)
	if err := w.exchange(t, address, exchange{target: "/shop", status: 200, served: true}); err != nil {
		t.Errorf("the script works again: %v", err)
	}
	w.remove()
	for served := (exchange{target: "/shop", status: 200, served: true}); w.exchange(t, address, served) == nil && t.Context().Err() == nil; {
	} // until the agent knows
	if err := w.exchange(t, address, exchange{target: "/shop", status: status("the script is missing")}); err != nil {
		t.Errorf("the script is missing: %v", err)
	}
	if cells["the agent is gone"] == "" {
		return
	}
	w.stopAgent()
	if err := w.exchange(t, address, exchange{target: "/shop", status: status("the agent is gone")}); err != nil {
		t.Errorf("the agent is gone: %v", err)
	}
}

// appliesAll checks a gateway that takes all of a decision: any status, headers of any name, and another target.
func (w *world) appliesAll(t *testing.T, address string) {
	t.Helper()
	start, _, _ := strings.Cut(w.source, "    function")
	w.publish(start + `    function handle(request)
      if request.path == "/teapot" then
        return { allow = false, status = 418, body = "short\nand \"stout\"\n", response_headers = { set = { location = "/kettle" } } }
      end
      return {
        path = "/other", query = "q=%20", upstream = "app",
        headers = { set = { ["x-user"] = { "ann", "bob" } }, append = { ["x-user"] = "eve" } },
        response_headers = { set = { location = "/" .. (request.headers["x-seen"] or "") } },
      }
    end
`)
	for _, x := range []exchange{
		{target: "/teapot", status: 418, answer: "short\nand \"stout\"\n", location: "/kettle"},
		{target: "/shop?a", headers: []string{"X-User", "root", "X-Seen", "root"}, status: 200, answer: "GET /other?q=%20 for ann+bob+eve: ", location: "/root", served: true},
	} {
		if err := w.exchange(t, address, x); err != nil {
			t.Errorf("%s: %v", x.target, err)
		}
	}
}
