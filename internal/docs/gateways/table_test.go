package gateways_test

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

// featureScript decides by the path: each path is a row of the table in docs/gateways/README.md.
const featureScript = `    function handle(request)
      local path = request.path
      if path == "/status" then return { allow = false, status = 418 } end
      if path == "/deny" then return { allow = false, status = 403, body = "not you\n" } end
      if path == "/respond" then return { allow = false, status = 200, body = "from the script\n" } end
      if path == "/redirect" then return { redirect = "/login", status = 307 } end
      if path == "/set" then return { headers = { set = { ["x-user"] = "ann" } } } end
      if path == "/append" then return { headers = { set = { ["x-user"] = "ann" }, append = { ["x-user"] = "bob" } } } end
      if path == "/remove" then return { headers = { remove = { "x-gone" } } } end
      if path == "/response" then return { response_headers = { set = { ["x-answer"] = "42" } } } end
      if path == "/cookie" then return { cookies = { { name = "seen", value = "1" } } } end
      if path == "/rewrite" then return { path = "/other" } end
      if path == "/body" then return { allow = false, status = 403, body = request.body or "no body\n" } end
      if path == "/misspelled" then return { alow = false } end
      if path == "/fails" then error("a fault") end
      if path == "/slow" then while true do end end
    end
`

// answer is what a client got of a gateway, and the application before.
type answer struct {
	*http.Response
	body   string
	served bool
}

// features are the rows of the table: what a client asks for, and what stands in the cell.
var features = []struct {
	name, path string
	cell       func(a answer) string
}{
	{"deny, with 403", "/deny", statusOf},
	{"… and the body", "/deny", func(a answer) string { return yes(a.body == "not you\n") }},
	{"deny, with another status, such as 418", "/status", statusOf},
	{"answer with 200", "/respond", func(a answer) string {
		if a.StatusCode == http.StatusOK {
			return yes(a.body == "from the script\n" && !a.served)
		}
		return statusOf(a)
	}},
	{"redirect", "/redirect", func(a answer) string {
		if a.StatusCode == http.StatusTemporaryRedirect {
			return yes(strings.HasSuffix(a.Header.Get("Location"), "/login"))
		}
		return statusOf(a)
	}},
	{"set a header", "/set", func(a answer) string { return yes(strings.Contains(a.body, " for ann: ")) }},
	{"append a header", "/append", func(a answer) string {
		if strings.Contains(a.body, " for ann,bob: ") {
			return "yes, in one line"
		}
		return yes(strings.Contains(a.body, " for ann+bob: "))
	}},
	{"remove a header", "/remove", func(a answer) string { return yes(a.served && !strings.Contains(a.body, "(gone)")) }},
	{"set a header for the client", "/response", func(a answer) string { return yes(a.Header.Get("X-Answer") == "42") }},
	{"set a cookie", "/cookie", func(a answer) string { return yes(strings.HasPrefix(a.Header.Get("Set-Cookie"), "seen=1")) }},
	{"rewrite the path", "/rewrite", func(a answer) string { return yes(strings.Contains(a.body, " /other ")) }},
	{"see the body", "/body", func(a answer) string { return yes(a.body == "hello") }},
	{"the decision is misspelled", "/misspelled", statusOf},
	{"the script fails", "/fails", statusOf},
	{"the script takes too long", "/slow", statusOf},
}

func statusOf(a answer) string {
	if a.served {
		return "allow"
	}
	return strconv.Itoa(a.StatusCode)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// table checks the gateway's column of the table in README.md.
func (w *world) table(t *testing.T, address, column string) {
	t.Helper()
	w.tableOf(t, address, "What each gateway can do", column)
}

// tableOf checks a column of the table in that section.
func (w *world) tableOf(t *testing.T, address, title, column string) {
	t.Helper()
	want := w.columnOf(t, title, column)
	start, _, _ := strings.Cut(w.source, "    function")
	w.publish(start + featureScript)
	for _, f := range features {
		a, err := w.ask(t, address, f.path)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		if got := f.cell(a); got != want[f.name] {
			t.Errorf("the table says %q of %s and %q, want %q (status %d, body %q)", want[f.name], column, f.name, got, a.StatusCode, a.body)
		}
	}
	w.publish(strings.Replace(start, "  source:", "  enabled: false\n  source:", 1) + featureScript)
	if a, err := w.ask(t, address, "/set"); err != nil || statusOf(a) != want["the script is disabled"] {
		t.Errorf("the table says %q of %s and a disabled script: %d, %v", want["the script is disabled"], column, a.StatusCode, err)
	}
	w.publish(strings.Replace(start, "  source:", "  limits: {concurrency: 1, timeout: 500ms, instructions: 100000000}\n  source:", 1) + featureScript)
	w.overload(t, address, column, want["the agent is overloaded"])
	w.publish(w.source)
}

// overload has several requests come at once, again if they were not. The agent runs one, lets one wait, and refuses
// the others.
func (w *world) overload(t *testing.T, address, column, want string) {
	t.Helper()
	const requests = 8
	reasons := map[string]int{}
	for ended := time.Now().Add(patience); reasons["OVERLOADED"] == 0; {
		answers := make(chan answer)
		for range requests {
			go func() {
				a, err := w.ask(t, address, "/slow")
				if err != nil {
					t.Errorf("%s, overloaded: %v", column, err)
				}
				answers <- a
			}()
		}
		for range requests {
			if a := <-answers; a.Response != nil {
				reasons[a.Header.Get("Scriptorium-Reason")]++
				if got := statusOf(a); got != want {
					t.Errorf("the table says %q of %s and an agent that is overloaded, want %q", want, column, got)
				}
			}
		}
		if reasons[""] > 0 { // the gateway does not tell
			return
		}
		if time.Now().After(ended) {
			t.Fatalf("%s is not overloaded: the reasons are %v", column, reasons)
		}
	}
}

// column returns the gateway's column of the table in README.md, by the rows' names.
func (w *world) column(t *testing.T, name string) map[string]string {
	t.Helper()
	return w.columnOf(t, "What each gateway can do", name)
}

// columnOf returns a column of the table in that section.
func (w *world) columnOf(t *testing.T, title, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(pages + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	section, err := page.Section(string(text), title)
	if err != nil {
		t.Fatal(err)
	}
	return cells(section, name)
}

// cells returns the column of the first table that has it, by its first cells.
func cells(section, column string) map[string]string {
	found, at := map[string]string{}, -1
	for line := range strings.Lines(section) {
		if at >= 0 && !strings.HasPrefix(line, "|") {
			break
		}
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		if at < 0 {
			for i, head := range row {
				if head == column {
					at = i
				}
			}
			continue
		}
		if at < len(row) {
			found[row[0]] = row[at]
		}
	}
	return found
}

func (w *world) ask(t *testing.T, address, path string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader("hello"))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("X-Gone", "1")
	before := w.served.Load()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp, string(body), w.served.Load() > before}, err
}
