package page_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/scriptorium-dev/scriptorium/internal/docs/page"
)

var text = strings.ReplaceAll(`# Title

## Install

    kubectl apply -f it

or all of it:

    helm install it
    helm status it

'''console
# no heading
$ helm install it --wait
$ kubectl get it
NAME  READY
it    1/1
'''

### In production

- In a list:

  '''yaml
  a:
    b: 1
  '''

| head | of a table |
|---|---:|
| a | 1 |
| b | |

## Uninstall

'''yaml
c: 2
'''
`, "'''", "```")

func TestSection(t *testing.T) {
	install, err := page.Section(text, "Install")
	if err != nil {
		t.Fatal(err)
	}
	for part, in := range map[string]bool{"# no heading\n": true, "### In production\n": true, "## Install": false, "Uninstall": false, "c: 2": false} {
		if strings.Contains(install, part) != in {
			t.Errorf("%q is in the section: %t", part, !in)
		}
	}
	if last, err := page.Section(text, "Uninstall"); err != nil || !strings.HasSuffix(last, "c: 2\n```\n") {
		t.Errorf("the last section is %q, %v", last, err)
	}
	if _, err := page.Section(text, "no heading"); err == nil {
		t.Error("a line of a block is taken for a heading")
	}
}

func TestReadSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := page.ReadSection(file, "Uninstall"); err != nil || !strings.Contains(got, "c: 2") {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := page.ReadSection(file, "nothing"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v does not say which page", err)
	}
}

func TestHeadings(t *testing.T) {
	if got, want := page.Headings(text), []string{"Title", "Install", "In production", "Uninstall"}; !slices.Equal(got, want) {
		t.Errorf("headings are %q, want %q", got, want)
	}
}

func TestBlocks(t *testing.T) {
	if got, want := page.Blocks(text, "yaml"), []string{"a:\n  b: 1\n", "c: 2\n"}; !slices.Equal(got, want) {
		t.Errorf("blocks are %q, want %q", got, want)
	}
	if got, want := page.Indented(text), []string{"kubectl apply -f it\n", "helm install it\nhelm status it\n"}; !slices.Equal(got, want) {
		t.Errorf("indented blocks are %q, want %q", got, want)
	}
	if got, err := page.Find(page.Indented(text), "status"); err != nil || !strings.HasPrefix(got, "helm install it\n") {
		t.Errorf("the block is %q, %v", got, err)
	}
	for _, words := range []string{"nothing has these", "it"} {
		if got, err := page.Find(page.Indented(text), words); err == nil {
			t.Errorf("%q is said to be in %q alone", words, got)
		}
	}
}

func TestRows(t *testing.T) {
	want := [][]string{{"a", "1"}, {"b", ""}}
	if got := page.Rows(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTranscript(t *testing.T) {
	want := []page.Command{{Line: "helm install it --wait"}, {Line: "kubectl get it", Prints: "NAME  READY\nit    1/1\n"}}
	if got := page.Transcript(text); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
