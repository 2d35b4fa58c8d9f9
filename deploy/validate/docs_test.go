package validate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fenced is a block of YAML in a page.
var fenced = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestThePagesExamples applies what docs/kubernetes.md shows, as a dry run, and gives its
// values to the chart.
func TestThePagesExamples(t *testing.T) {
	makeNamespace(t, "kube-system", nil)
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	applied, rendered := 0, 0
	for _, block := range fenced.FindAllStringSubmatch(string(page), -1) {
		text := block[1]
		switch {
		case strings.HasPrefix(text, "apiVersion: "):
			for _, o := range parse(t, text) {
				applied++
				if isNamespaced(t, o) && o.GetNamespace() == "" {
					o.SetNamespace("default")
				}
				makeServiceAccount(t, "default")
				if err := apply(t, o); err != nil {
					t.Errorf("%s: %v", title(o), err)
				}
			}
		case strings.HasPrefix(text, "# mine.yaml"):
			rendered++
			mine := filepath.Join(t.TempDir(), "mine.yaml")
			if err := os.WriteFile(mine, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := template("--values="+production, "--values="+mine)(t); !strings.Contains(out, "registry.example.org/scriptorium/agentd:v1.2.3") {
				t.Error("the chart does not do with mine.yaml what the page says")
			}
		}
	}
	if applied < 3 || rendered != 1 {
		t.Errorf("%d objects and %d files of values: are they written in another way?", applied, rendered)
	}
}

// TestTheChartsNotes: what they tell people to apply is taken.
func TestTheChartsNotes(t *testing.T) {
	notes, err := os.ReadFile(chart + "/templates/NOTES.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(notes), "<<END\n")
	text, _, found := strings.Cut(after, "  END\n")
	if !found {
		t.Fatal("NOTES.txt applies nothing: is it written in another way?")
	}
	for _, o := range parse(t, strings.ReplaceAll(text, "\n  ", "\n")[2:]) {
		if err := apply(t, o); err != nil {
			t.Errorf("%s: %v", title(o), err)
		}
	}
}
