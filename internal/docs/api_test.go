package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	scriptapi "github.com/scriptorium-dev/scriptorium/docs/api"
)

// standard are the globals that editors know, since Lua 5.1 has them.
const standard = `
_G _VERSION assert config error getmetatable ipairs next pairs pcall rawequal rawget rawset require select setmetatable
tonumber tostring type unpack xpcall coroutine math os string table
`

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// api returns every name that scripts find and Lua 5.1 has not.
func api(t *testing.T) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(read(t, "engine/lua/testdata/reviewed.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		reviewed, _, _ := strings.Cut(line, ":")
		for name := range strings.FieldsSeq(reviewed) {
			top, _, _ := strings.Cut(name, ".")
			if !slices.Contains(strings.Fields(standard), top) {
				names = append(names, name)
			}
		}
	}
	if len(names) < 10 {
		t.Fatalf("found %q: is the list of all names written in another way?", names)
	}
	slices.Sort(names)
	return names
}

// TestDefinitions: the definitions for editors have all names of the API, and no others.
func TestDefinitions(t *testing.T) {
	want := append(api(t), "config")
	slices.Sort(want)
	var got []string
	d := scriptapi.Parse(scriptapi.Globals)
	for _, f := range d.Functions {
		got = append(got, f.Name)
	}
	for _, v := range d.Variables {
		got = append(got, v.Name)
	}
	slices.Sort(got)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not in docs/api/scriptorium.lua", name)
		}
	}
	for i, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("docs/api/scriptorium.lua has %s, which there is not", name)
		}
		if i > 0 && got[i-1] == name {
			t.Errorf("docs/api/scriptorium.lua has %s twice", name)
		}
	}
}

// TestAPIVersion: the definitions and the table of versions know the version that scripts
// find.
func TestAPIVersion(t *testing.T) {
	said, ok := strings.CutPrefix(outcome(t, "handle", "", "function handle() return scriptorium.api end"), "returns ")
	if !ok {
		t.Fatal(said)
	}
	if !strings.Contains(read(t, "docs/api/scriptorium.lua"), "\nscriptorium.api = "+said+"\n") {
		t.Errorf("docs/api/scriptorium.lua has another version than %s", said)
	}
	if !strings.Contains(read(t, "docs/api/README.md"), "\n| "+said+" | ") {
		t.Errorf("docs/api/README.md does not say what version %s adds", said)
	}
}

// TestEveryFunctionIsDocumented wants each library to have a page that the index leads to
// and that shows each of its functions.
func TestEveryFunctionIsDocumented(t *testing.T) {
	index := read(t, "docs/api/README.md")
	for _, name := range api(t) {
		library, member, _ := strings.Cut(name, ".")
		page := library
		switch library {
		case "get_request_header":
			page = "request"
		case "log_info":
			page = "log"
		}
		if !strings.Contains(index, "]("+page+".md)") {
			t.Errorf("docs/api/README.md does not lead to %s.md", page)
		}
		if text := read(t, "docs/api/"+page+".md"); member != "" && !strings.Contains(text, "\n    "+name) {
			t.Errorf("docs/api/%s.md does not show %s", page, name)
		}
	}
}
